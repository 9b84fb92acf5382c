"""Putting, getting, describing and deleting objects, and linking to them (ADR-20)."""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
from typing import Any

import pytest

import jetsync
from jetsync import ObjectMeta
from tests.harness.memory import resident, settled
from tests.harness.waiting import wait_until

BYTES = bytes(range(256)) * 2000  # 4 chunks
LONG = 20
NO_LISTS: Any = {"a": "b"}


@pytest.mark.parametrize("size", [0, 1, 128 * 1024 - 1, 128 * 1024, 128 * 1024 + 1, 500_000])
def test_what_was_put_comes_back(store, size):
    data = BYTES[:size]
    put = store.put("a name: ü/>*.", data)
    assert (put.size, put.chunks) == (size, -(-size // (128 * 1024)))
    assert store.get_bytes("a name: ü/>*.") == data
    info = store.info("a name: ü/>*.")
    assert info == put
    assert abs(info.modified_ns - put.modified_ns) < 60 * 10**9
    assert not info.deleted
    assert info.bucket == store.bucket


@pytest.mark.parametrize(
    "source",
    [
        bytearray(BYTES),
        memoryview(BYTES),
        [BYTES[:1], b"", BYTES[1:400_000], BYTES[400_000:]],
        (BYTES[at : at + 1000] for at in range(0, len(BYTES), 1000)),
        io.BytesIO(BYTES),
    ],
    ids=lambda one: type(one).__name__,
)
def test_every_source_of_bytes(store, source):
    """All are cut into the same chunks."""
    assert store.put(ObjectMeta(name="x", chunk_size=100_000), source).chunks == 6
    assert store.get_bytes("x") == BYTES


def test_files(store, tmp_path):
    """A file replaces what is there when it is whole; a failed one leaves nothing behind."""
    source, target = tmp_path / "in.bin", tmp_path / "out.bin"
    source.write_bytes(BYTES)
    target.write_bytes(b"old")
    assert store.put_file(source).name == "in.bin"
    assert store.put_file(str(source), "second").name == "second"
    assert store.put("third", source).size == len(BYTES)
    store.get_file("in.bin", target)
    assert target.read_bytes() == BYTES
    with pytest.raises(jetsync.ObjectNotFoundError):
        store.get_file("nothing", tmp_path / "no.bin")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.bin", "out.bin"]


def test_a_reader_is_a_file(store):
    """Lines, parts, wrappers, copies: what files can do."""
    text = "".join(f"line {number}\n" for number in range(40_000))
    store.put("text", text.encode())
    with store.get("text") as reader:
        assert reader.info.name == "text"
        assert reader.read(10) == text.encode()[:10]
        assert reader.readline() == text.encode()[10 : text.index("\n", 10) + 1]
        part = bytearray(7)
        assert reader.readinto(part) == 7
        rest = reader.read()
        assert reader.read() == b"" == reader.read1()
        assert reader.seekable()
    assert text.encode().endswith(bytes(part) + rest)
    assert reader.closed
    with pytest.raises(ValueError, match="closed"):
        reader.read()
    with store.get("text") as reader, io.TextIOWrapper(reader) as lines:
        assert "".join(lines) == text


def test_an_object_is_replaced_and_its_chunks_removed(store, chunks):
    store.put("x", BYTES)
    assert chunks() == 4
    store.put("x", b"new")
    assert (chunks(), store.get_bytes("x")) == (1, b"new")
    store.put("x", b"")
    assert (chunks(), store.get_bytes("x")) == (0, b"")


def test_deleting(store, chunks):
    store.put("x", BYTES)
    assert store.delete("x").deleted
    assert chunks() == 0
    assert store.delete("x").deleted
    with pytest.raises(jetsync.ObjectNotFoundError) as caught:
        store.get("x")
    assert pickle.loads(pickle.dumps(caught.value)).name == "x"
    gone = store.info("x", show_deleted=True)
    assert (gone.deleted, gone.size, gone.chunks, gone.digest) == (True, 0, 0, "")
    with pytest.raises(jetsync.ObjectNotFoundError):
        store.delete("never")
    store.put("x", b"again")
    assert store.get_bytes("x") == b"again"


def test_what_is_said_about_an_object(store):
    meta = ObjectMeta(
        name="x", description="d", headers={"h": ["1", "2"]}, metadata={"m": "n"}, chunk_size=1000
    )
    put = store.put(meta, BYTES[:2500])
    assert (put.chunks, put.chunk_size) == (3, 1000)
    changed = store.update_meta("x", description="e")
    assert (changed.description, changed.headers, changed.metadata) == (
        "e",
        {"h": ["1", "2"]},
        {"m": "n"},
    )
    store.put("taken", b"")
    with pytest.raises(jetsync.ObjectExistsError):
        store.update_meta("x", new_name="taken")
    store.update_meta("x", new_name="y", metadata={})
    assert store.info("x", show_deleted=True).deleted
    assert store.get_bytes("y") == BYTES[:2500]
    assert store.info("y").metadata == {}
    store.delete("y")
    with pytest.raises(jetsync.ObjectNotFoundError):
        store.update_meta("y", description="f")


def test_lists_and_watchers(store):
    assert store.list() == []
    for name in ("a", "b", "c"):
        store.put(name, name.encode())
    store.delete("b")
    assert [one.name for one in store.list()] == ["a", "c"]
    assert [one.name for one in store.list(show_deleted=True)] == ["a", "c", "b"]
    with store.watch() as every, store.watch(updates_only=True) as updates:
        assert updates.initial_done
        found = [(one.name, one.deleted) for one in every.initial(LONG)]
        assert found == [("a", False), ("c", False), ("b", True)]
        assert every.initial_done
        store.put("d", b"d")
        assert every.next(LONG).name == updates.next(LONG).name == "d"
        with pytest.raises(jetsync.TimeoutError):
            updates.next(0.01)
    assert list(updates) == []
    with store.watch(ignore_deletes=True) as watcher:
        assert [one.name for one in watcher.initial(LONG)] == ["a", "c", "d"]


def test_a_list_misses_no_object_that_is_replaced_meanwhile(store):
    """A replaced object moves behind the end as it was: the end is asked for again."""
    for name in ("a", "b", "c"):
        store.put(name, name.encode())
    with store.watch() as watcher:
        assert not watcher.initial_done
        store.put("a", b"again")  # before its turn: nothing was taken yet
        found = {one.name: one.size for one in watcher.initial(LONG)}
    assert found == {"a": 5, "b": 1, "c": 1}


def test_links(js, store, bucket):
    other = js.create_object_store(bucket=bucket + "x", storage="memory")
    try:
        info = other.put("there", BYTES)
        store.add_link("link", info)
        assert store.get_bytes("link") == BYTES
        assert store.info("link").link == jetsync.ObjectLink(bucket=bucket + "x", name="there")
        store.put("here", b"here")
        store.add_link("link", store.info("here"))
        assert store.get_bytes("link") == b"here"
        store.add_bucket_link("all", other)
        assert store.info("all").link == jetsync.ObjectLink(bucket=bucket + "x")
        with pytest.raises(jetsync.ObjectLinkError):
            store.get("all")
        with pytest.raises(jetsync.ObjectLinkError):
            store.add_link("more", store.info("link"))
        with pytest.raises(jetsync.ObjectExistsError):
            store.add_link("here", info)
        with pytest.raises(jetsync.ObjectLinkError):
            other.add_link("more", other.delete("there"))
        store.delete("link")
        assert store.get_bytes("here") == b"here"
        store.add_link("link", store.info("here"))
        store.delete("here")
        with pytest.raises(jetsync.ObjectNotFoundError):
            store.get("link")
    finally:
        js.delete_object_store(bucket + "x")
    with pytest.raises(jetsync.ObjectStoreNotFoundError):
        store.add_link("dead", info)
        store.get("dead")


def test_a_sealed_bucket(js, bucket):
    """It can be read and refuses everything else."""
    store = js.create_object_store(bucket=bucket, storage="memory")
    try:
        store.put("x", BYTES)
        assert store.seal().sealed
        assert store.status().sealed
        assert store.get_bytes("x") == BYTES
        assert [one.name for one in store.list()] == ["x"]
        with pytest.raises(jetsync.NotStoredError):
            store.put("y", b"")
        with pytest.raises(jetsync.NotStoredError):
            store.put("x", BYTES)
        with pytest.raises(jetsync.NotStoredError):
            store.delete("x")
    finally:
        js.delete_object_store(bucket)


def test_buckets(js, bucket):
    config = jetsync.ObjectStoreConfig(
        bucket=bucket, description="d", ttl=3600, storage="memory", metadata={"a": "b"}
    )
    store = js.create_object_store(config)
    try:
        assert js.create_object_store(config).bucket == bucket
        with pytest.raises(jetsync.ObjectStoreExistsError):
            js.create_object_store(config, description="e")
        js.update_object_store(bucket=bucket, max_bytes=10**6)
        status = js.object_store(bucket).status()
        assert (status.description, status.ttl, status.config.max_bytes) == ("d", 3600, 10**6)
        assert (status.storage, status.replicas, status.size) == ("memory", 1, 0)
        assert not status.sealed
        assert not status.is_compressed
        assert status.metadata["a"] == "b"
        assert status.backing_store == "JetStream"
        with pytest.raises(jetsync.NotStoredError):
            store.put("x", bytes(2 * 10**6))
        assert store.list() == []
        js.create_or_update_object_store(config, description="f")
        assert store.status().description == "f"
        assert bucket in js.object_store_names()
        assert bucket in [one.bucket for one in js.object_stores()]
    finally:
        js.delete_object_store(bucket)
    for call in (js.object_store, js.delete_object_store):
        with pytest.raises(jetsync.ObjectStoreNotFoundError):
            call(bucket)
    for call in (lambda: store.put("x", b""), lambda: store.info("x"), store.list, store.status):
        with pytest.raises(jetsync.ObjectStoreNotFoundError):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.put("", b""),
        lambda store: store.put("x" * 1025, b""),
        lambda store: store.put("\ud800", b""),
        lambda store: store.put("x", "text"),
        lambda store: store.put(None, b""),
        lambda store: store.put(ObjectMeta(name="x", chunk_size=0), b""),
        lambda store: store.put(ObjectMeta(name="x", headers=NO_LISTS), b""),
        lambda store: store.put("x", io.StringIO("text")),
        lambda store: store.put("x", [1, 2]),
        lambda store: store.get("", timeout=1),
        lambda store: store.add_link("x", "y"),
        lambda store: store.add_bucket_link("x", "a b"),
        lambda store: store.watch(include_history=True, updates_only=True),
        lambda store: store.update_meta("x", description=1),
    ],
)
def test_what_cannot_be_is_refused(store, call):
    with pytest.raises(jetsync.ConfigError):
        call(store)
    assert store.list() == []


def test_a_long_name_travels(store):
    store.put("n" * 1024, b"x")
    assert store.get_bytes("n" * 1024) == b"x"


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_a_source_that_fails_leaves_nothing(store, chunks, failure):
    """Neither a new object, nor chunks; the old object stays."""
    store.put("x", b"old")

    def source():
        for _ in range(50):
            yield BYTES
        raise failure

    with pytest.raises(failure):
        store.put("x", source())
    assert (store.get_bytes("x"), chunks()) == (b"old", 1)


def test_a_put_out_of_time_leaves_nothing(store, chunks):
    with pytest.raises(jetsync.TimeoutError):
        store.put("x", iter(lambda: BYTES, b""), timeout=1)
    wait_until(lambda: chunks() == 0, timeout=LONG)
    assert store.list() == []


def test_chunks_too_large_for_the_server(store, chunks):
    with pytest.raises(jetsync.MaxPayloadError):
        store.put(ObjectMeta(name="x", chunk_size=2 * 2**20), bytes(4 * 2**20))
    assert chunks() == 0


def test_puts_of_one_name_end_in_one_object(js, store, chunks):
    """Whatever the race, one object stays whole, and no chunk of another."""
    contents = [bytes([number]) * 300_000 for number in range(6)]
    threads = [threading.Thread(target=store.put, args=("x", data)) for data in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert store.get_bytes("x") in contents
    assert chunks() == 3


def test_an_abandoned_reader_ends_its_consumer(js, store, bucket):
    """Closed early, or dropped."""
    store.put("x", BYTES * 10)
    stream = js.stream(f"OBJ_{bucket}")
    with store.get("x") as reader:
        assert reader.read(10) == BYTES[:10]
        assert len(list(stream.consumer_names())) == 1
    wait_until(lambda: not list(stream.consumer_names()), timeout=LONG)
    reader = store.get("x")
    assert reader.read(10) == BYTES[:10]
    del reader
    wait_until(lambda: not list(stream.consumer_names()), timeout=LONG)


def test_a_hundred_mebibytes_in_bounded_memory(js, bucket):
    """Reading and writing hold a part at a time (about 25 MiB, more where threads ran before)."""
    block = bytes(range(256)) * 4096
    told = hashlib.sha256()
    peak = before = settled()

    def source():
        for number in range(100):
            data = number.to_bytes(4, "big") + block[4:]
            told.update(data)
            look()
            yield data

    def look():
        nonlocal peak
        peak = max(peak, resident())

    store = js.create_object_store(bucket=bucket, storage="file")
    try:
        store.put("big", source())
        found = hashlib.sha256()
        with store.get("big") as reader:
            while piece := reader.read(2**20):
                found.update(piece)
                look()
        assert found.digest() == told.digest()
        assert peak - before < 60  # MiB
    finally:
        js.delete_object_store(bucket)
