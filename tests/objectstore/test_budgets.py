"""Calls on objects end in time, clean-up included, and what is left to do is done afterwards."""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.tap import Tap
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.timed
LONG = 30
PIECE = bytes(128 * 1024)


@pytest.fixture
def own_server(tmp_path):
    with NatsServer(store_dir=tmp_path) as server:
        yield server
        server.resume()


@pytest.fixture
def tap(own_server):
    with Tap(own_server.url) as one:
        yield one


@pytest.fixture
def nc(tap):
    connection = jetsync.connect(tap.url, reconnect_wait=0.05, ping_interval=60)
    yield connection
    connection.close()


@pytest.fixture
def store(nc):
    return nc.jetstream(timeout=LONG).create_object_store(bucket="b")


@pytest.fixture
def chunks(own_server):
    """Ask over another connection how many chunks there are."""
    with jetsync.connect(own_server.url) as other:
        stream = other.jetstream(timeout=LONG).stream("OBJ_b")

        def count():
            state = stream.info(subjects_filter="$O.b.C.>", timeout=LONG).state
            return sum((state.subjects or {}).values())

        yield count


@pytest.fixture
def pausing(own_server, tap):
    """Let the server freeze at the moment at which it has confirmed what is said of an object."""

    def pause():
        replies = set()

        def to_server(frame):
            if frame.subject.startswith(b"$O.b.M."):
                replies.add(frame.reply)
            return frame.raw

        def to_client(frame):
            if frame.subject in replies:
                replies.clear()
                own_server.pause()
            return frame.raw

        tap.to_server, tap.to_client = to_server, to_client

    return pause


def test_a_put_that_runs_out_of_time_in_the_middle(own_server, store, chunks, in_time):
    """It ends in time, and its chunks are removed as soon as the server answers again."""
    store.put("x", b"old")

    def source():
        for number in range(200):
            if number == 20:
                own_server.pause()
            yield PIECE

    with in_time(1), pytest.raises(jetsync.TimeoutError):
        store.put("x", source(), timeout=1)
    own_server.resume()
    wait_until(lambda: chunks() == 1, timeout=LONG)
    assert store.get_bytes("x") == b"old"


def test_draining_waits_until_the_chunks_of_a_put_that_was_given_up_are_removed(
    own_server, nc, store, chunks
):
    def source():
        yield PIECE * 10
        own_server.pause()
        yield PIECE * 100

    with pytest.raises(jetsync.TimeoutError):
        store.put("x", source(), timeout=1)
    own_server.resume()
    nc.drain(LONG)
    assert chunks() == 0


@pytest.mark.parametrize("what", ["put", "delete"])
def test_a_server_that_freezes_before_the_clean_up(
    own_server, store, chunks, pausing, what, in_time
):
    """The call has succeeded and returns in time; the old chunks are removed later."""
    store.put("x", PIECE * 3)
    pausing()
    with in_time(1):
        if what == "put":
            store.put("x", b"new", timeout=1)
        else:
            store.delete("x", timeout=1)
    own_server.resume()
    wait_until(lambda: chunks() == (what == "put"), timeout=LONG)


def test_what_cannot_be_removed_is_said_in_the_log(own_server, nc, store, pausing, caplog):
    """When the connection is closed before the server answers."""
    store.put("x", PIECE)
    pausing()
    store.delete("x", timeout=0.5)
    nc.close()
    wait_until(lambda: "prune" in caplog.text, timeout=LONG)
    assert "chunks of" in caplog.text


CALLS = {
    "put": lambda store: store.put("x", PIECE * 100, timeout=1),
    "get": lambda store: store.get("x", timeout=1),
    "get_bytes": lambda store: store.get_bytes("x", timeout=1),
    "get_bytes of a part": lambda store: store.get_bytes("x", start=5, timeout=1),
    "info": lambda store: store.info("x", timeout=1),
    "exists": lambda store: store.exists("x", timeout=1),
    "update_meta": lambda store: store.update_meta("x", description="d", timeout=1),
    "rename": lambda store: store.update_meta("x", new_name="y", timeout=1),
    "delete": lambda store: store.delete("x", timeout=1),
    "copy": lambda store: store.copy("x", "y", timeout=1),
    "list": lambda store: store.list(timeout=1),
    "watch": lambda store: store.watch(timeout=1),
    "prune": lambda store: store.prune(timeout=1),
    "add_bucket_link": lambda store: store.add_bucket_link("l", "other", timeout=1),
    "seal": lambda store: store.seal(timeout=1),
    "status": lambda store: store.status(timeout=1),
}


def all_end_in_time(store, in_time):
    """Make all calls at once; none is answered."""
    seen = {}

    def make(name, call):
        try:
            call(store)
        except Exception as error:
            seen[name] = error

    threads = [threading.Thread(target=make, args=pair) for pair in CALLS.items()]
    with in_time(1):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
    assert seen.keys() == CALLS.keys()
    for name, error in seen.items():
        kinds = (jetsync.TimeoutError, jetsync.NotStoredError, jetsync.DisconnectedError)
        assert isinstance(error, kinds), name


def test_every_call_with_a_frozen_server_ends_in_time(own_server, store, in_time):
    store.put("x", PIECE * 3)
    own_server.pause()
    all_end_in_time(store, in_time)


def test_every_call_without_a_link_ends_in_time(own_server, in_time):
    with Proxy(own_server.url) as proxy:
        nc = jetsync.connect(proxy.url, reconnect_wait=0.05, max_reconnects=-1)
        store = nc.jetstream(timeout=LONG).create_object_store(bucket="b")
        store.put("x", PIECE * 3)
        proxy.stop()
        all_end_in_time(store, in_time)
        nc.close()


def test_a_put_that_is_slower_than_the_bucket_keeps_anything(nc, chunks_of):
    """It is refused instead of succeeding with an object that cannot be read."""
    js = nc.jetstream(timeout=LONG)
    store = js.create_object_store(bucket="short", ttl=1)

    def source():
        yield PIECE
        wait_until(lambda: chunks_of(js, "short") == 1, timeout=LONG)
        wait_until(lambda: chunks_of(js, "short") == 0, timeout=LONG)
        yield PIECE

    with pytest.raises(jetsync.NotStoredError, match="aged out"):
        store.put("x", source())
    assert not store.exists("x")


@pytest.fixture
def chunks_of():
    def count(js, bucket):
        state = js.stream(f"OBJ_{bucket}").info(subjects_filter=f"$O.{bucket}.C.>").state
        return sum((state.subjects or {}).values())

    return count
