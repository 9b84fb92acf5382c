"""Objects survive restarted servers and lost connections, put or got in the middle of them."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.tap import Tap
from tests.harness.waiting import wait_until

PIECE = bytes(range(256)) * 1024  # two chunks
PIECES = 60
BYTES = PIECE * PIECES
LONG = 60


@pytest.fixture
def own_server(tmp_path):
    with NatsServer(store_dir=tmp_path) as server:
        yield server


def connect(url):
    return jetsync.connect(url, reconnect_wait=0.05, max_reconnects=-1)


def chunk_counts(js, bucket):
    state = js.stream(f"OBJ_{bucket}").info(subjects_filter=f"$O.{bucket}.C.>").state
    return list(state.subjects.values())


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_server_that_restarts_in_the_middle(own_server, how):
    """Of a put and of a get: every chunk once and in order."""

    def again():
        if how == "kill":
            own_server.kill()
            own_server.start()
        else:
            own_server.restart()

    with connect(own_server.url) as nc:
        js = nc.jetstream(timeout=LONG)
        store = js.create_object_store(bucket="b")

        def source():
            for number in range(PIECES):
                if number == PIECES // 2:
                    again()
                yield PIECE

        assert store.put("x", source()).size == len(BYTES)
        assert chunk_counts(js, "b") == [2 * PIECES]
        with store.get("x", read_timeout=LONG) as reader:
            first = reader.read(10**6)
            again()
            assert first + reader.read() == BYTES


def test_connections_that_break_all_the_time(own_server):
    """What is stored in another order after a broken connection is put right."""
    with Proxy(own_server.url) as proxy, connect(proxy.url) as nc:
        js = nc.jetstream(timeout=LONG)
        store = js.create_object_store(bucket="b")

        def source():
            for number in range(PIECES):
                if number % 10 == 5:
                    proxy.cut()
                yield PIECE[:-1] + bytes([number])

        wanted = b"".join(PIECE[:-1] + bytes([number]) for number in range(PIECES))
        store.put("x", source(), timeout=LONG)
        assert chunk_counts(js, "b") == [2 * PIECES]
        found = b""
        with store.get("x", read_timeout=LONG) as reader:
            while piece := reader.read(len(wanted) // 4):
                found += piece
                proxy.cut()
        assert found == wanted
        wait_until(lambda: nc.is_connected, timeout=LONG)


@pytest.fixture
def tap(server):
    with Tap(server.url) as one:
        yield one


@pytest.fixture
def far(tap, store, bucket):
    """The bucket as it is seen through a wire that a test rewrites."""
    with jetsync.connect(tap.url) as nc:
        yield nc.jetstream(timeout=20).object_store(bucket)


def test_chunks_that_arrive_in_another_order_are_put_right(tap, far, store, bucket, chunks):
    """As after a broken connection, when only some were taken by the server."""
    count, held = 0, b""

    def swapped(frame):
        nonlocal count, held
        if not frame.subject.startswith(b"$O.%s.C." % bucket.encode()):
            return frame.raw
        count += 1
        if count in (2, 9):
            held = frame.raw
            return b""
        late, held = held, b""
        return frame.raw + late

    tap.to_server = swapped
    data = b"".join(bytes([number]) * 1000 for number in range(20))
    far.put(jetsync.ObjectMeta(name="x", chunk_size=1000), data)
    assert count > 20  # some were sent again
    assert (chunks(), store.get_bytes("x")) == (20, data)


@pytest.mark.parametrize("stored", [True, False])
def test_an_answer_that_is_lost_at_the_very_end(tap, far, store, bucket, chunks, stored):
    """What was stored is found; what may still be stored keeps its chunks."""
    replies = set()

    def to_server(frame):
        if not frame.subject.startswith(b"$O.%s.M." % bucket.encode()):
            return frame.raw
        replies.add(frame.reply)
        return frame.raw if stored else b""

    store.put("x", b"old")
    tap.to_server = to_server
    tap.to_client = lambda frame: b"" if frame.subject in replies else frame.raw
    if stored:
        far.put("x", b"new", timeout=1)
        assert store.get_bytes("x") == b"new"
        wait_until(lambda: chunks() == 1)  # what the call had no time for is done after it
    else:
        with pytest.raises(jetsync.PublishUnknownError):
            far.put("x", b"new", timeout=1)
        assert (store.get_bytes("x"), chunks()) == (b"old", 2)
    assert replies
