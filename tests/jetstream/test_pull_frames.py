"""What the steady state of pulling costs: Python frames for a chunk, switches of threads, CPU.

A frame costs about as much as the whole handling of a message in the compiled core, and each
acquisition of the GIL waits up to 5 ms beside a thread that computes.
"""

from __future__ import annotations

import contextlib
import resource
import time

import pytest

import jetsync
from tests.harness.frames import frames

CHUNK = 100
"""Of the buffer; a pull is sent for each half of it."""


@pytest.fixture(scope="module")
def nc(server):
    with jetsync.connect(server.url) as one:
        yield one


@pytest.fixture(scope="module")
def js(nc):
    """With a stream whose messages all of these tests read."""
    js = nc.jetstream()
    js.create_stream(name="FRAMES", subjects=["frames"], storage="memory")
    js.publish_many([("frames", b"x")] * 3000)
    yield js
    js.delete_stream("FRAMES")


@pytest.fixture
def consumer(js):
    return js.create_consumer("FRAMES", ack_policy="none", mem_storage=True)


def many(stream, count):
    for _ in range(count):
        next(stream)


@pytest.mark.straight  # over TLS a chunk comes in as many pieces as the server writes
def test_a_chunk_of_a_stream_costs_two_frames(nc, consumer):
    """The least of a few: a chunk that comes in pieces costs two frames for each of them."""

    def excess():
        before = nc.stats.out_messages

        def take():
            many(stream, 200)

        found = frames(take)
        pulls = nc.stats.out_messages - before
        assert pulls >= 2
        return found.total() - found["many"] - 2 * pulls

    with consumer.messages(max_messages=CHUNK) as stream:
        many(stream, 500)
        assert min(excess() for _ in range(10)) <= 0


@pytest.mark.straight  # as above
def test_a_chunk_of_an_ordered_stream_costs_fifteen_frames(nc, js, consumer):
    with js.ordered_consumer("FRAMES") as reader, reader.messages(max_messages=CHUNK) as stream:
        many(stream, 500)
        before = nc.stats.out_messages

        def take():
            many(stream, 1000)

        found = frames(take)
        pulls = nc.stats.out_messages - before
    assert pulls >= 10
    chunks = max(pulls, found["_load"])  # the kernel may hand one over in two pieces
    assert found.total() - found["many"] <= 15 * chunks, found
    assert chunks < 1000 / 10


def test_a_fetch_costs_nineteen_frames(consumer):
    """The least of a few: a batch that comes in two parts is taken in two steps."""
    consumer.fetch(10)

    def fetch():
        assert len(consumer.fetch(10)) == 10

    counts = [frames(fetch) for _ in range(20)]
    assert min(found.total() for found in counts) <= 19, counts[0]


@pytest.mark.straight  # a proxy hands a batch over in as many pieces as it reads
def test_a_fetch_gives_up_the_gil_once(consumer):
    """Beside a thread that computes each time costs up to a switch interval."""
    consumer.fetch(250)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    got = [len(consumer.fetch(250)) for _ in range(10)]
    waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
    assert got == [250] * 10
    assert waits <= 10 * 8  # it sleeps for each piece in which the kernel hands the batch over


def test_heartbeats_wake_no_thread_that_waits(js):
    """The server repeats itself ten times; the thread that waits sleeps through it."""
    consumer = js.create_consumer(
        "FRAMES", ack_policy="none", deliver_policy="new", mem_storage=True
    )
    with consumer.messages(heartbeat=0.1, expires=60) as stream:
        with pytest.raises(TimeoutError):
            stream.next(timeout=0.4)
        mailbox = stream._inbox.mailbox
        received, begun = mailbox.received, time.monotonic()

        def wait():
            with contextlib.suppress(TimeoutError):
                stream.next(timeout=1.2)

        found = frames(wait)
        assert mailbox.last_put > begun + 0.5, "no heartbeat came"
        assert mailbox.received == received
    assert "_on_status" not in found, found
