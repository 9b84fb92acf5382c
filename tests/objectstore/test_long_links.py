"""Objects over long links: no question that is not needed, and enough bytes under way."""

from __future__ import annotations

import os

import pytest

import jetsync
from jetsync._threads import ThreadPool
from jetsync.objectstore.info import CHUNK_SIZE
from tests.harness.conditioner import Link
from tests.harness.waiting import wait_until

LONG = 60
WINDOW = 8 * 2**20


@pytest.fixture
def link(url):
    with Link(url) as one:
        yield one


@pytest.fixture
def far(link, store):
    """The same bucket over a link of its own."""
    with jetsync.connect(link.url) as nc:
        nc.flush()
        yield nc.jetstream(timeout=LONG).object_store(store.bucket)
        nc.close()


@pytest.fixture
def asked(nc, bucket):
    """Count the requests of a kind that were sent from now on to the bucket's stream."""

    def begin(operation):
        requests = nc.subscribe(f"$JS.API.{operation}.OBJ_{bucket}.>")
        others = nc.subscribe(f"$JS.API.{operation}.OBJ_{bucket}")
        nc.flush()

        def count():
            nc.flush()
            return requests.pending_messages + others.pending_messages

        return count

    return begin


def test_a_slow_answer_is_no_reason_to_ask_the_leader(link, store, asked):
    """The first chunk comes after a round trip, longer than the usual patience."""
    store.put("x", b"content")
    link.set(rtt=0.2)
    with jetsync.connect(link.url) as nc:
        far = nc.jetstream(timeout=LONG).object_store(store.bucket)
        infos = asked("STREAM.INFO")
        assert far.get_bytes("x") == b"content"
        assert infos() == 1  # with which the ordered consumer begins
        nc.close()


def test_a_get_deletes_its_server_consumer_with_one_request(link, far, store, asked):
    store.put("x", bytes(1000))
    deletions = asked("CONSUMER.DELETE")
    reader = far.get("x")
    assert len(reader.read()) == 1000
    link.stall(way="to_client")  # whether it was received is not known
    reader.close()
    reader.close()
    wait_until(lambda: deletions() > 0, timeout=LONG)
    link.resume()
    far.status(timeout=LONG)
    assert deletions() == 1


def test_a_put_asks_once_for_the_description_that_it_replaces(far, store, asked):
    store.put("x", b"old")
    lookups = asked("STREAM.MSG.GET")
    far.put("x", b"new")
    assert lookups() == 1
    assert store.get_bytes("x") == b"new"


def test_a_put_that_was_overtaken_looks_again(far, store, chunks):
    """The description that it found at its beginning is replaced meanwhile, twice."""
    store.put("x", b"old")

    def source():
        yield b"mine"
        store.put("x", b"other's")
        store.put("x", b"other's again")

    far.put("x", source())
    assert store.get_bytes("x") == b"mine"
    assert chunks() == 1


def test_a_put_has_its_whole_window_on_the_way(link, far, store):
    content = os.urandom(2 * WINDOW)
    before: list[int] = []

    def source():
        link.stall(way="to_client")  # no confirmation comes back
        before.append(link.state()["to_server"])
        yield content

    def under_way():
        return link.state()["to_server"] - before[0] if before else 0

    with ThreadPool("putter") as pool:
        done = pool.submit(far.put, "x", source())
        try:
            wait_until(lambda: under_way() >= WINDOW, timeout=LONG)
            # What stands around the chunks, of TLS too, comes to less than one chunk.
            assert under_way() < WINDOW + CHUNK_SIZE
        finally:
            link.resume()
        done.result(LONG)
    assert store.get_bytes("x") == content
