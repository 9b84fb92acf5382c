"""Reading objects from any place on, and writing them like files."""

from __future__ import annotations

import ctypes
import io
import os
import pickle
import random
import shutil
import zipfile

import pyarrow as pa
import pytest

import jetsync
from jetsync import ObjectMeta
from tests.harness.soak import scaled

DATA = random.Random(5).randbytes(1_000_000)


@pytest.fixture
def x(store):
    """An object of 100 chunks with others between them."""
    pieces = []

    def source():
        for start in range(0, len(DATA), 50_000):
            if start == 500_000:
                store.put(ObjectMeta(name="between", chunk_size=1000), bytes(30_000))
            pieces.append(start)
            yield DATA[start : start + 50_000]

    store.put(ObjectMeta(name="x", chunk_size=10_000), source())
    return store


def test_seeking_reads_what_a_file_would(x):
    """Any order of seeks and reads gives the same bytes as a file in memory."""
    rng = random.Random(6)
    file = io.BytesIO(DATA)
    with x.get("x") as reader:
        assert reader.seekable()
        assert reader.seek(0, os.SEEK_END) == reader.tell() == len(DATA)
        assert reader.read() == b""
        assert reader.seek(0) == 0
        for _ in range(scaled(60, 2000)):
            kind = rng.randrange(4)
            if kind < 2:
                where = rng.choice([(rng.randrange(1_100_000), 0), (-rng.randrange(10**6), 2)])
                assert reader.seek(*where) == file.seek(*where)
            size = rng.choice([0, 1, 7, 9_999, 10_000, 10_001, 123_456])
            if kind == 3:
                assert reader.peek()[:5] == DATA[file.tell() : file.tell() + 5]
            assert reader.read(size) == file.read(size)
            assert reader.tell() == file.tell()
        reader.seek(999_990)
        assert reader.read() == DATA[-10:]
        for wrong in ((-1, 0), (0, 5)):
            with pytest.raises(ValueError, match=r"start|whence"):
                reader.seek(*wrong)
        with pytest.raises(TypeError):
            reader.seek(1.5)
        assert reader.tell() == len(DATA)
    with pytest.raises(ValueError, match="closed"):
        reader.seek(0)


def test_reading_from_the_start_is_checked_by_the_digest_also_after_a_look_at_the_end(x):
    with x.get("x") as reader:
        size = reader.seek(0, os.SEEK_END)
        reader.seek(0)
        assert reader.read(size) == DATA


def test_parts_of_an_object(x):
    assert x.get_bytes("x", start=25_000, length=20_000) == DATA[25_000:45_000]
    assert x.get_bytes("x", start=-5) == DATA[-5:]
    assert x.get_bytes("x", start=-5_000_000, length=3) == DATA[:3]
    assert x.get_bytes("x", length=0) == x.get_bytes("x", start=2_000_000) == b""
    for wrong in ({"length": -1}, {"start": 1.5}, {"start": "1"}, {"start": None}):
        with pytest.raises(jetsync.ConfigError):
            x.get_bytes("x", **wrong)


def test_parts_travel_without_the_rest(js, x, nc):
    """The last bytes of an object cost one chunk, not all of it."""
    before = nc.stats.in_bytes
    assert x.get_bytes("x", start=-10) == DATA[-10:]
    # What the reader had asked for ahead may be under way; far less than the object.
    with x.get("x") as reader:
        reader.seek(-10, 2)
        assert reader.read() == DATA[-10:]
    assert nc.stats.in_bytes - before < len(DATA)


def test_parts_without_direct_gets(js, x, bucket):
    """The leader gives chunk by chunk where a stream has no direct gets."""
    js.update_stream(name=f"OBJ_{bucket}", allow_direct=False)
    assert x.get_bytes("x", start=5_000, length=700_000) == DATA[5_000:705_000]


def test_a_zip_file_in_the_store(store):
    """Libraries that need a file that can seek get one."""
    with store.open("a.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("one.txt", "1" * 1000)
        archive.writestr("two.txt", "2" * 500_000)
    with zipfile.ZipFile(store.open("a.zip")) as archive:
        assert archive.namelist() == ["one.txt", "two.txt"]
        assert archive.read("two.txt") == b"2" * 500_000
        assert archive.testzip() is None


def test_an_object_that_is_written_like_a_file(store, chunks):
    with store.open(ObjectMeta(name="x", chunk_size=1000, description="d"), "wb") as file:
        assert file.writable()
        with pytest.raises(ValueError, match="close"):
            _ = file.info
        shutil.copyfileobj(io.BytesIO(DATA[:123_456]), file)
        assert file.tell() == 123_456
        assert not store.exists("x")
    assert file.info == store.info("x")
    assert (file.info.size, file.info.description, file.info.chunks) == (123_456, "d", 124)
    assert store.get_bytes("x") == DATA[:123_456]
    with pytest.raises(ValueError, match="closed"):
        file.write(b"")
    assert chunks() == 124


def test_a_writer_takes_anything_bytes_like(store):
    """Pickling an array hands its buffer over, and Arrow a buffer of its own."""
    table = pa.table({"a": [1, 2, 3]})
    with store.open("pickled", "wb") as file:
        pickle.dump(pickle.PickleBuffer(DATA), file, protocol=5)
    with store.open("pickled") as file:
        assert pickle.load(file) == DATA
    with store.open("arrow", "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    with store.open("arrow") as file:
        assert pa.ipc.open_stream(file).read_all() == table
    with store.open("arrays", "wb") as file:
        assert file.write((ctypes.c_uint16.__ctype_be__ * 2)(1, 2)) == 4
        assert file.write((ctypes.c_int * 3 * 0)()) == 0
        assert file.write(memoryview(DATA)[::2]) == len(DATA) // 2
        for wrong in ("text", 7, None):
            with pytest.raises(jetsync.ConfigError):
                file.write(wrong)
    assert store.get_bytes("arrays") == b"\0\1\0\2" + DATA[::2]


@pytest.mark.parametrize("how", ["exception", "abandon"])
def test_a_writer_that_is_abandoned_changes_nothing(store, chunks, how):
    store.put("x", b"old")
    if how == "exception":
        with pytest.raises(ZeroDivisionError), store.open("x", "wb") as file:
            file.write(DATA)
            raise ZeroDivisionError
    else:
        file = store.open("x", "wb")
        file.write(DATA)
        file.abandon()
        file.close()
    assert (store.get_bytes("x"), chunks()) == (b"old", 1)


@pytest.mark.parametrize("mode", ["r", "w", "ab", "rb+", ""])
def test_other_modes_are_refused(store, mode):
    with pytest.raises(jetsync.ConfigError, match="mode"):
        store.open("x", mode)


def test_copies(js, x, bucket):
    info = x.copy("x", "y")
    assert (info.name, info.size, info.chunk_size) == ("y", len(DATA), 10_000)
    assert info.nuid != x.info("x").nuid
    x.delete("x")
    assert x.get_bytes("y") == DATA
    other = js.create_object_store(bucket=bucket + "x", storage="memory")
    try:
        x.update_meta("y", metadata={"a": "b"})
        assert x.copy("y", "z", to=other).metadata == {"a": "b"}
        assert other.get_bytes("z") == DATA
        with pytest.raises(jetsync.ObjectNotFoundError):
            x.copy("x", "y")
        with pytest.raises(jetsync.ConfigError):
            x.copy("y", "")
    finally:
        js.delete_object_store(bucket + "x")


def test_progress(store, tmp_path):
    told: list[int] = []
    store.put(ObjectMeta(name="x", chunk_size=100_000), DATA, on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] == len(DATA)
    told.clear()
    store.get_file("x", tmp_path / "x", on_progress=told.append)
    assert (told, told[-1]) == (sorted(told), len(DATA))

    def fail(count):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.put("x", DATA, on_progress=fail)
    assert store.get_bytes("x") == DATA


def test_a_store_as_a_container(store):
    for name in ("a/1", "a/2", "b/1"):
        store.put(name, b"")
    assert "a/1" in store
    assert "a" not in store
    assert 7 not in store
    assert store.exists("b/1")
    assert list(store) == ["a/1", "a/2", "b/1"]
    store.delete("a/1")
    assert "a/1" not in store
    assert [info.name for info in store.list(prefix="a/")] == ["a/2"]
    assert [info.name for info in store.list(prefix="a/", show_deleted=True)] == ["a/2", "a/1"]
