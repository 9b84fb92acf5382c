"""Objects that are replaced, removed or not yet everywhere while they are read."""

from __future__ import annotations

import json
import threading

import pytest

import jetsync
from tests.harness.soak import scaled
from tests.harness.tap import Tap
from tests.kv.test_cluster import leader_of

LONG = 60
SIZE = 700_000


def content(number):
    return bytes([number % 256]) * SIZE


def test_whole_reads_of_an_object_that_is_replaced_all_the_time(store, url, tmp_path):
    """Each read has one version, whole; none fails."""
    store.put("x", content(0))
    stop = threading.Event()

    def replace():
        with jetsync.connect(url) as nc:
            near = nc.jetstream(timeout=LONG).object_store(store.bucket)
            number = 0
            while not stop.is_set():
                number += 1
                near.put("x", content(number))

    writing = threading.Thread(target=replace)
    writing.start()
    try:
        for _ in range(scaled(20, 1000)):
            data = store.get_bytes("x")
            assert data == data[:1] * SIZE
            store.get_file("x", tmp_path / "file")
            data = (tmp_path / "file").read_bytes()
            assert data == data[:1] * SIZE
    finally:
        stop.set()
        writing.join(LONG)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("how", ["put", "delete", "rename"])
def test_a_reader_says_that_its_object_was_replaced(store, how):
    store.put(jetsync.ObjectMeta(name="x", chunk_size=100_000), bytes(60 * 10**6))
    reader = store.get("x")
    reader.read(10)
    if how == "put":
        store.put("x", b"new")
    else:
        if how == "rename":
            store.update_meta("x", new_name="y")
        store.delete("x" if how == "delete" else "y")
    for _ in range(2):
        with pytest.raises(jetsync.ObjectReplacedError):
            reader.read()
    reader.close()


def test_a_damaged_object_is_no_replaced_one(js, store, bucket):
    store.put(jetsync.ObjectMeta(name="x", chunk_size=1000), bytes(10_000))
    js.stream(f"OBJ_{bucket}").delete_msg(5)
    for read in (lambda: store.get_bytes("x"), lambda: store.get_bytes("x", start=9_000)):
        with pytest.raises(jetsync.ObjectIntegrityError) as caught:
            read()
        assert not isinstance(caught.value, jetsync.ObjectReplacedError)


@pytest.mark.timeout(scaled(300, 3600))
def test_followers_that_stop_and_come_back(fresh_cluster, record_figure):
    """An object that is whole on the leader is never called damaged."""
    cluster = fresh_cluster
    with jetsync.connect(cluster.urls, reconnect_wait=0.05) as nc:
        js = nc.jetstream(timeout=LONG)
        store = js.create_object_store(bucket="lag", replicas=3, timeout=LONG)
        reads = 0
        number = 0
        while reads < scaled(32, 4000):
            number += 1
            leader = leader_of(js, "OBJ_lag")
            followers = [one for one in cluster.servers if one.name != leader]
            follower = followers[number % 2]
            if nc.connected_url and follower.url.split(":")[-1] in nc.connected_url:
                follower = followers[(number + 1) % 2]
            follower.pause()
            try:
                data = bytes([number % 256]) * 3_000_000
                for name in ("a", "b", "c", "d"):
                    store.put(f"{name}{number % 3}", data, timeout=LONG)
            finally:
                follower.resume()
            for name in ("a", "b", "c", "d"):
                for _ in range(4):
                    assert store.get_bytes(f"{name}{number % 3}", timeout=LONG) == data
                    reads += 1
        record_figure("G32 reads without a false alarm", reads, goal=f">= {scaled(32, 4000)}")


def test_what_a_server_that_is_behind_lacks_comes_from_the_leader(server, store):
    """The reader's consumer has nothing to deliver although the leader has the chunks."""
    data = bytes(range(256)) * 2000
    store.put("x", data)
    replies = set()

    def to_server(frame):
        if b".CONSUMER.CREATE." in frame.subject:
            replies.add(frame.reply)
        return frame.raw

    def behind(frame):
        if frame.subject not in replies:
            return frame.raw
        about = {**json.loads(frame.body), "num_pending": 0}
        return frame.with_body(json.dumps(about).encode()).raw

    with Tap(server.url) as tap, jetsync.connect(tap.url) as nc:
        far = nc.jetstream(timeout=LONG).object_store(store.bucket)
        tap.to_server, tap.to_client = to_server, behind
        assert far.get_bytes("x") == data
    assert replies
