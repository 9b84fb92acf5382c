"""consume() while there is no server, no thread or no server consumer for it."""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync._deadline import Deadline
from jetsync.jetstream.pull import consume
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until

LONG = 20.0
COUNT = 300


@pytest.fixture
def server():
    with NatsServer() as one:
        yield one


@pytest.fixture
def nc(server):
    with jetsync.connect(server.url, on_error=lambda event: None) as connection:
        js = connection.jetstream()
        js.create_stream(name="S", subjects=["s"], storage="memory")
        js.publish_many(("s", b"%d" % n) for n in range(COUNT))
        yield connection


class Held:
    """A callback that waits for leave in its first message."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()
        self.seen: list[int] = []

    def __call__(self, msg):
        self.entered.set()
        assert self.leave.wait(LONG)
        self.seen.append(int(msg.data))


def test_what_an_ordered_reader_has_prefetched_comes_while_there_is_no_server(server, nc):
    context, callback = None, Held()
    consumer = nc.jetstream().ordered_consumer("S")
    try:
        context = consumer.consume(callback)
        assert callback.entered.wait(LONG)
        wait_until(lambda: context._stream.pending == COUNT - 1, timeout=LONG)
        # All of it into the prefetch buffer, as after a turn of the callback.
        stream = context._stream
        while stream._inbox.has_messages:
            stream._inbox.begin(COUNT)
            stream._take_over(stream._inbox.release())
        consumer._reader.last = COUNT
        server.kill()
        wait_until(lambda: not nc.is_connected, timeout=LONG)
        consumer._reader.drop("the link is gone")
    finally:
        callback.leave.set()
    assert context is not None
    context.drain(LONG)
    nc.close()
    assert callback.seen == list(range(COUNT))
    assert context.error is None


def test_recovery_for_which_the_system_has_no_thread_is_tried_again(nc, monkeypatch):
    monkeypatch.setattr(consume, "_NO_THREAD_WAIT", 0.05)
    js = nc.jetstream()
    seen: list[int] = []
    warnings: list[Exception] = []
    context = js.ordered_consumer("S").consume(
        lambda msg: seen.append(int(msg.data)), on_warning=warnings.append
    )
    wait_until(lambda: len(seen) == COUNT, timeout=LONG)
    start, failures = nc._recoverer._start, [RuntimeError("no thread"), MemoryError()]

    def scarce():
        if failures:
            raise failures.pop()
        start()

    monkeypatch.setattr(nc._recoverer, "_start", scarce)
    nc.force_reconnect()
    js.publish("s", b"%d" % COUNT, timeout=LONG)
    wait_until(lambda: len(seen) == COUNT + 1, timeout=LONG)
    assert not failures
    assert [type(warning) for warning in warnings] == [jetsync.Error] * 2
    assert context.error is None
    context.stop()


def test_a_drain_makes_no_server_consumer(nc):
    consumer = nc.jetstream().ordered_consumer("S")
    stream = consumer.messages()
    stream.next(timeout=LONG)
    reader = consumer._reader
    reader.attempt = pytest.fail
    stream._rest()
    reader.drop("lost")
    stream.drain()
    stream._recover()
    assert reader.generation is None
    stream.stop()


def test_an_attempt_after_too_many_resets_says_so(nc):
    consumer = nc.jetstream().ordered_consumer("S", max_reset_attempts=0)
    reader = consumer._reader
    reader.drop("lost")
    with pytest.raises(jetsync.JetStreamError, match="reset 1 time in"):
        reader.attempt(Deadline(LONG))
    assert reader.generation is None


def test_closing_in_a_callback_waits_for_no_idle_callback(server):
    closed = threading.Event()
    with jetsync.connect(server.url, dispatch_threads=1) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"], storage="memory")
        idle = js.create_consumer("S", filter_subject="s").consume(print)
        member = idle._member

        def callback(_msg):
            member.join(None)  # no limit: it returns only because it does not wait
            nc.close()
            closed.set()

        nc.subscribe("close", callback=callback)
        nc.publish("close")
        assert closed.wait(LONG)
        assert idle.wait(LONG)
