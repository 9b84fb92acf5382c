"""Chunks that no name leads to: found and removed by prune, and by nothing else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from datetime import datetime

import pytest

import jetsync
from tests.harness.waiting import wait_until

LONG = 30
UPLOADER = """
import sys, time, jetsync
def source():
    yield bytes(11 * 128 * 1024 + 5)
    time.sleep(1000)  # until it is killed
with jetsync.connect(sys.argv[1]) as nc:
    nc.jetstream().object_store(sys.argv[2]).put("x", source())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_put_that_was_killed(store, url, bucket, chunks, how):
    """Its chunks are found by their age; other objects, links and deletions stay as they are."""
    store.put("x", b"old")
    store.put("y", bytes(400_000))
    store.delete("y")
    store.add_link("l", store.info("x"))
    command = [sys.executable, "-c", UPLOADER, url, bucket]
    with subprocess.Popen(command) as process:
        wait_until(lambda: chunks() == 1 + 11, timeout=LONG)
        process.send_signal(how)
    assert store.prune() == []
    (found,) = store.prune(older_than=0)
    assert (found.chunks, found.size) == (11, 11 * 128 * 1024)
    assert found.modified_ns <= store.status().stream_info.state.last_ts_ns
    assert (chunks(), store.prune(older_than=0)) == (1, [])
    assert store.get_bytes("x") == store.get_bytes("l") == b"old"
    assert [info.name for info in store.list(show_deleted=True)] == ["x", "y", "l"]


def test_an_upload_under_way_stays(store, chunks):
    """It is younger than what is looked for."""
    middle, go_on = threading.Event(), threading.Event()

    def source():
        yield bytes(300_000)
        middle.set()
        assert go_on.wait(LONG)
        yield bytes(300_000)

    putting = threading.Thread(target=store.put, args=("x", source()))
    putting.start()
    try:
        assert middle.wait(LONG)
        assert store.prune(older_than=60) == []
    finally:
        go_on.set()
        putting.join(LONG)
    assert store.get_bytes("x") == bytes(600_000)
    assert store.prune(older_than=0) == []


def test_what_cannot_be_read_keeps_its_chunks(js, store, bucket, chunks):
    """It is another program's. When it is replaced or deleted, its chunks go."""
    for name in ("a", "b"):
        nuid = f"N{name}"
        js.publish(f"$O.{bucket}.C.{nuid}", b"chunk")
        wire = {"name": name, "nuid": nuid, "size": 5, "chunks": 1, "headers": 7}
        token = {"a": "YQ==", "b": "Yg=="}[name]
        js.publish(f"$O.{bucket}.M.{token}", json.dumps(wire).encode())
    assert store.prune(older_than=0) == []
    assert chunks() == 2
    store.delete("a")
    store.put("b", b"")
    assert chunks() == 0


def test_headers_with_a_text_in_place_of_a_list(js, store, bucket, chunks):
    """As one other client writes them: the object can be listed, read and replaced."""
    js.publish(f"$O.{bucket}.C.N", b"chunk")
    wire = {"name": "a", "nuid": "N", "size": 5, "chunks": 1, "headers": {"A": "b", "C": ["d"]}}
    js.publish(f"$O.{bucket}.M.YQ==", json.dumps(wire).encode())
    assert store.info("a").headers == {"A": ["b"], "C": ["d"]}
    assert [info.name for info in store.list()] == ["a"]
    assert store.get_bytes("a") == b"chunk"
    store.delete("a")
    assert chunks() == 0


def test_other_clients_see_when_an_object_was_changed(js, store, bucket):
    store.put("a", b"1")
    stream = js.stream(f"OBJ_{bucket}")

    def told():
        msg = stream.get_last_msg(f"$O.{bucket}.M.YQ==")
        return json.loads(msg.data)["mtime"], msg.time

    written, stored = told()
    assert abs(datetime.fromisoformat(written.replace("Z", "+00:00")) - stored).total_seconds() < 60
    store.delete("a")
    assert told()[0] > written


def test_what_a_put_leaves_when_the_server_stays_away(tmp_path):
    """It is removed by the next prune."""
    with jetsync.server.NatsServer(store_dir=tmp_path) as server:
        with jetsync.connect(server.url, reconnect_wait=0.05) as nc:
            store = nc.jetstream(timeout=LONG).create_object_store(bucket="b")

            def source():
                yield bytes(300_000)
                yield bytes(300_000)
                wait_until(lambda: store.status().size > 100_000, timeout=LONG)
                server.kill()
                yield bytes(300_000)

            with pytest.raises(jetsync.Error):
                store.put("x", source(), timeout=2)
            nc.close()
        server.start()
        with jetsync.connect(server.url) as nc:
            store = nc.jetstream(timeout=LONG).object_store("b")
            assert len(store.prune(older_than=0)) <= 1
            assert store.status().size == 0
