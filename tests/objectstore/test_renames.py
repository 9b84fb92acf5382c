"""A rename loses no object, whatever others write to the two names and wherever it stops."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time

import pytest

import jetsync
from jetsync.objectstore.backing import ObjectBacking
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.timeout(scaled(300, 3600))
LONG = 20
ROUNDS = scaled(30, 1000)
CUT = scaled(10, 500)
KILLS = scaled(3, 60)


@pytest.fixture(params=[False, True], ids=["in steps", "atomic"])
def store(request, js, bucket):
    """A bucket whose renames are several messages, or one atomic batch."""
    yield js.create_object_store(bucket=bucket, storage="memory", allow_atomic=request.param)
    js.delete_object_store(bucket)


def together(*calls):
    """Run calls at the same moment; return what each returned or raised."""
    results: list[object] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def run(number, call):
        barrier.wait(LONG)
        try:
            results[number] = call()
        except jetsync.Error as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    return results


def check_all_readable(store, chunks):
    """Every name that is listed can be got, and there are no chunks beside theirs."""
    infos = [info for info in store.list() if info.link is None]
    for info in infos:
        assert len(store.get_bytes(info.name)) == info.size
    assert chunks() == sum(info.chunks for info in infos)


def test_a_rename_against_a_put_of_the_old_name(store, chunks, record_figure):
    for number in range(ROUNDS):
        store.put("x", b"old%d" % number)
        renamed, put = together(
            lambda: store.update_meta("x", new_name="y"), lambda: store.put("x", b"new")
        )
        assert isinstance(put, jetsync.ObjectInfo)
        assert isinstance(renamed, jetsync.ObjectInfo)
        assert store.get_bytes("y") in (b"old%d" % number, b"new")
        check_all_readable(store, chunks)
        store.delete("y")
    record_figure("G37 rounds against a put of the old name, nothing lost or left", ROUNDS)


def test_a_rename_against_a_put_of_the_new_name(store, chunks, record_figure):
    """Either it finds the name taken, or the put replaces what was renamed."""
    for _ in range(ROUNDS):
        store.put("x", b"old")
        renamed, _ = together(
            lambda: store.update_meta("x", new_name="y"), lambda: store.put("y", b"new")
        )
        assert store.get_bytes("y") == b"new"
        if isinstance(renamed, jetsync.ObjectExistsError):
            assert store.get_bytes("x") == b"old"
        else:
            assert not store.exists("x")
        check_all_readable(store, chunks)
        store.delete("y")
    record_figure("G37 rounds against a put of the new name, nothing lost or left", ROUNDS)


def test_a_rename_against_a_deletion(store, chunks, record_figure):
    for _ in range(ROUNDS):
        store.put("x", b"old")
        renamed, deleted = together(
            lambda: store.update_meta("x", new_name="y"), lambda: store.delete("x")
        )
        assert isinstance(deleted, jetsync.ObjectInfo)
        if isinstance(renamed, jetsync.ObjectInfo):
            assert store.get_bytes("y") == b"old"
        else:
            assert isinstance(renamed, jetsync.ObjectNotFoundError)
        assert not store.exists("x")
        check_all_readable(store, chunks)
        if store.exists("y"):
            store.delete("y")
    record_figure("G37 rounds against a deletion, nothing lost or left", ROUNDS)


def test_two_renames_of_one_object(store, chunks, record_figure):
    """One of them wins."""
    for _ in range(ROUNDS):
        store.put("x", b"old")
        results = together(
            lambda: store.update_meta("x", new_name="y"),
            lambda: store.update_meta("x", new_name="z"),
        )
        assert sorted(type(one).__name__ for one in results) == [
            "ObjectInfo",
            "ObjectNotFoundError",
        ]
        (info,) = store.list()
        assert info.name in ("y", "z")
        assert store.get_bytes(info.name) == b"old"
        check_all_readable(store, chunks)
        store.delete(info.name)
    record_figure("G37 rounds against a second rename, nothing lost or left", ROUNDS)


def test_everything_at_once(store, chunks):
    """Renames to and fro, puts and deletions of four names by four threads: what is listed can be
    read, and no chunk is left."""
    names = "abcd"

    def run(seed):
        rng = random.Random(seed)

        def act():
            for _ in range(scaled(20, 500)):
                name, other = rng.sample(names, 2)
                try:
                    kind = rng.random()
                    if kind < 0.4:
                        store.update_meta(name, new_name=other)
                    elif kind < 0.8:
                        store.put(name, rng.randbytes(rng.choice([0, 10, 200_000])))
                    else:
                        store.delete(name)
                except (jetsync.ObjectNotFoundError, jetsync.ObjectExistsError):
                    pass

        return act

    assert together(*(run(seed) for seed in range(4))) == [None] * 4
    check_all_readable(store, chunks)


class Interrupted(jetsync.Error):
    """Stands for the end of a process."""


@pytest.mark.parametrize("last", [1, 2, 3])
@pytest.mark.parametrize("then", ["repeat", "put old", "put new", "delete old", "other rename"])
def test_a_rename_that_stops_in_the_middle(js, bucket, chunks, monkeypatch, last, then):
    """After any of its messages: readers find the object under one name, and whatever is done next
    works as if it had been completed or not begun."""
    js.create_object_store(bucket=bucket, storage="memory")
    store = js.object_store(bucket)
    write, count = ObjectBacking.write, 0

    def stopping(*arguments):
        nonlocal count
        write(*arguments)
        count += 1
        if count == last:
            raise Interrupted("the process has ended")

    try:
        store.put("x", b"old")
        with monkeypatch.context() as patch:
            patch.setattr(ObjectBacking, "write", stopping)
            with pytest.raises(Interrupted):
                store.update_meta("x", new_name="y", description="d")
        at = "x" if last == 1 else "y"
        assert [info.name for info in store.list()] == [at]
        assert store.get_bytes(at) == b"old"
        assert not store.exists("y" if at == "x" else "x")
        assert store.prune(older_than=0) == []
        if then == "repeat":
            for _ in range(2):
                assert store.update_meta("x", new_name="y", description="d").name == "y"
            found = {"y": b"old"}
            assert store.info("y").description == "d"
        elif then == "put old":
            store.put("x", b"new")
            found = {"x": b"new", "y": b"old"}
        elif then == "put new":
            store.put("y", b"new")
            found = {"y": b"new"} if at == "y" else {"x": b"old", "y": b"new"}
        elif then == "delete old":
            store.delete("x")
            found = {"y": b"old"}
        else:
            with pytest.raises(jetsync.ObjectNotFoundError):
                store.update_meta("x", new_name="z")
            found = {"y": b"old"}
        assert {info.name: store.get_bytes(info.name) for info in store.list()} == found
        check_all_readable(store, chunks)
        if then == "put new" and at == "x":
            # The description goes back to the old name, where the next writer finds it.
            with pytest.raises(jetsync.ObjectExistsError):
                store.update_meta("x", new_name="y")
        assert store.prune(older_than=0) == []
        for name in found:
            store.delete(name)
        assert chunks() == 0
    finally:
        js.delete_object_store(bucket)


def test_a_rename_that_another_client_left_half_done_is_completed(js, store, bucket, chunks):
    """Both names have the content: as after an interruption between two steps of other clients."""
    store.put("x", b"old")
    subject = f"$O.{bucket}.M."
    stream = js.stream(f"OBJ_{bucket}")
    wire = json.loads(stream.get_last_msg(subject + "eA==").data)
    js.publish(subject + "eQ==", json.dumps(wire | {"name": "y"}).encode(), rollup="sub")
    assert store.update_meta("x", new_name="y").name == "y"
    assert [info.name for info in store.list()] == ["y"]
    store.put("x", b"new")
    assert store.get_bytes("y") == b"old"
    check_all_readable(store, chunks)


OBJECT = {"name": "y", "nuid": "N", "size": 0, "chunks": 0}


@pytest.mark.parametrize(
    "note",
    [
        {"moved_to": 7},
        {"moved_to": {"name": "n" * 5000, "nuid": "N", "behind": 0, "object": OBJECT}},
        {"moved_to": {"name": "y", "nuid": ">", "behind": 0, "object": OBJECT}},
        {"moved_to": {"name": "y", "nuid": "N", "behind": -1, "object": OBJECT}},
        {"moved_to": {"name": "y", "nuid": "N", "behind": 10**30, "object": OBJECT}},
        {"moved_to": {"name": "y", "nuid": "N", "behind": 10**18, "object": OBJECT}},
        {"moved_to": {"name": "y", "nuid": "N", "behind": 0, "object": 7}},
        {"moved_to": {"name": "y", "nuid": "N", "behind": 0, "object": {"name": "z"}}},
        {"moved_to": {"name": "x", "nuid": "N", "behind": 0, "object": OBJECT | {"name": "x"}}},
        {"moved_to": {"name": "x", "nuid": "N", "behind": 1, "object": OBJECT | {"name": "x"}}},
        {"moved_to": {"name": "y", "nuid": "M", "behind": 0, "object": OBJECT}},
        {"deleted": False, "moved_from": {"name": "x", "mark": "M"}},
        {"deleted": False, "moved_from": {"name": "n" * 5000, "mark": "M"}},
        {"deleted": False, "moved_from": {"name": "", "mark": ">"}},
        {"deleted": False, "moved_from": []},
    ],
    ids=str,
)
def test_notes_that_another_program_has_made_up(js, store, bucket, note):
    """The name can be read, written, renamed and deleted, at once."""
    wire = {"name": "x", "nuid": "M", "deleted": True} | note
    for use in (
        lambda: store.exists("x"),
        lambda: store.list(),
        lambda: store.put("x", b"new"),
        lambda: store.delete("x"),
        lambda: store.update_meta("x", new_name="z"),
        lambda: store.prune(older_than=0),
    ):
        js.publish(f"$O.{bucket}.M.eA==", json.dumps(wire).encode(), rollup="sub")
        begin = time.monotonic()
        with contextlib.suppress(jetsync.ObjectNotFoundError, jetsync.ObjectExistsError):
            use()
        assert time.monotonic() - begin < 5
    store.put("x", b"new")
    assert store.get_bytes("x") == b"new"


def test_watchers_hear_that_the_old_name_is_gone(store):
    """A cache that follows the watch has what the list has."""
    store.put("g1", b"1")
    with store.watch() as watcher:
        cache = {info.name: info.deleted for info in watcher.initial(LONG)}
        store.update_meta("g1", new_name="g2")
        store.put("end", b"")
        while "end" not in cache:
            info = watcher.next(LONG)
            cache[info.name] = info.deleted
    assert [name for name, deleted in cache.items() if not deleted] == ["g2", "end"]


def test_renames_over_links_that_break_all_the_time(tmp_path, record_figure):
    """Every rename that returned has moved its object, and every other one can be repeated."""
    with (
        NatsServer(store_dir=tmp_path) as server,
        Proxy(server.url) as proxy,
        jetsync.connect(proxy.url, reconnect_wait=0, max_reconnects=-1) as nc,
        jetsync.connect(server.url) as own,
    ):
        store = nc.jetstream(timeout=LONG).create_object_store(bucket="b")
        near = own.jetstream().object_store("b")
        near.put("n0", b"content")
        stop = threading.Event()
        rng = random.Random(3)

        def cut():
            while not stop.wait(rng.uniform(0.005, 0.05)):
                proxy.cut()

        cutting = threading.Thread(target=cut)
        cutting.start()
        try:
            for number in range(CUT):
                for _ in range(20):
                    try:
                        store.update_meta(f"n{number}", new_name=f"n{number + 1}")
                        break
                    except (jetsync.PublishUnknownError, jetsync.DisconnectedError):
                        continue
                assert near.get_bytes(f"n{number + 1}") == b"content"
                assert [info.name for info in near.list()] == [f"n{number + 1}"]
        finally:
            stop.set()
            cutting.join()
        assert near.prune(older_than=0) == []
    record_figure("G37 renames under cuts, nothing lost or left", CUT)


RENAMER = """
import sys, jetsync
with jetsync.connect(sys.argv[1]) as nc:
    store = nc.jetstream().object_store(sys.argv[2])
    print("ready", flush=True)
    while True:
        for a, b in ("xy", "yz", "zx"):
            try:
                store.update_meta(a, new_name=b)
            except (jetsync.ObjectNotFoundError, jetsync.ObjectExistsError):
                pass
"""


def test_a_process_that_is_killed_while_it_renames(url, bucket, store, chunks, record_figure):
    """The object is under one of its names, and any later call works with it."""
    store.put("x", b"content")
    for number in range(KILLS):
        command = [sys.executable, "-c", RENAMER, url, bucket]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.02 + 0.007 * (number % 10))  # the moment varies
            process.kill()
        (info,) = store.list()
        assert store.get_bytes(info.name) == b"content"
        assert [name for name in "xyz" if store.exists(name)] == [info.name]
        try:
            store.update_meta(info.name, new_name="end")
        except jetsync.ObjectNotFoundError:
            # This call has completed the rename of the killed process: it is elsewhere now.
            (info,) = store.list()
            store.update_meta(info.name, new_name="end")
        store.update_meta("end", new_name="x")
        assert store.get_bytes("x") == b"content"
    assert store.prune(older_than=0) == []
    wait_until(lambda: chunks() == 1, timeout=LONG)
    record_figure("G37 kills in the middle, nothing lost or left", KILLS)
