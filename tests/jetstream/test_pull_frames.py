"""What the steady state of pulling costs: Python frames for a chunk, switches of threads, CPU.

A frame costs about as much as the whole handling of a message in the compiled core, and each
acquisition of the GIL waits up to 5 ms beside a thread that computes.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter

import pytest

CHUNK = 100
"""Of the buffer; a pull is sent for each half of it."""


@pytest.fixture
def consumer(js):
    js.create_stream(name="FRAMES", subjects=["frames"], storage="memory")
    js.publish_many([("frames", b"x")] * 6000)
    yield js.create_consumer("FRAMES", ack_policy="none")
    js.delete_stream("FRAMES")


def frames(function) -> Counter:
    """The Python frames that a call enters in this thread, but for its own."""
    found: Counter = Counter()

    def note(frame, event, _argument):
        if event == "call":
            found[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    found.subtract({function.__name__: 1})
    return +found


def many(stream, count):
    for _ in range(count):
        next(stream)


def test_a_chunk_of_a_stream_costs_two_frames(nc, consumer):
    with consumer.messages(max_messages=CHUNK) as stream:
        many(stream, 1000)
        before = nc.stats.out_messages

        def take():
            many(stream, 2000)

        found = frames(take)
        pulls = nc.stats.out_messages - before
    assert pulls >= 20
    assert found.total() - found["many"] <= 2 * pulls, found


def test_a_chunk_of_an_ordered_stream_costs_fifteen_frames(nc, js, consumer):
    with js.ordered_consumer("FRAMES") as reader, reader.messages(max_messages=CHUNK) as stream:
        many(stream, 1000)
        before = nc.stats.out_messages

        def take():
            many(stream, 2000)

        found = frames(take)
        pulls = nc.stats.out_messages - before
    assert pulls >= 20
    assert found.total() - found["many"] <= 15 * pulls, found


def test_a_fetch_costs_nineteen_frames(consumer):
    """The least of a few: a batch that comes in two parts is taken in two steps."""
    consumer.fetch(10)

    def fetch():
        assert len(consumer.fetch(10)) == 10

    counts = [frames(fetch) for _ in range(20)]
    assert min(found.total() for found in counts) <= 19, counts[0]


def test_a_fetch_gives_up_the_gil_once(consumer):
    """Beside a thread that computes each time costs up to a switch interval."""
    consumer.fetch(500)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    for _ in range(10):
        assert len(consumer.fetch(500)) == 500
    waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
    assert waits <= 10 * 8  # it sleeps for each piece in which the kernel hands the batch over


def test_heartbeats_wake_no_thread_that_waits(consumer):
    """The server repeats itself ten times; the thread that waits sleeps through it."""
    list(consumer.fetch(6000, timeout=20))
    with consumer.messages(heartbeat=0.1, expires=60) as stream:
        with pytest.raises(TimeoutError):
            stream.next(timeout=0.5)
        received = stream._inbox.mailbox.received
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            stream.next(timeout=1.2)
        waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
        mailbox = stream._inbox.mailbox
        assert mailbox.last_put > begun + 0.5, "no heartbeat came"
        assert mailbox.received == received
    assert waits <= 12, "one for each time that it looks whether heartbeats still come"
