"""consume() and messages() when their connection drains or closes."""

from __future__ import annotations

import threading

import pytest

import jetsync
from tests.harness.waiting import wait_until

LONG = 20.0
COUNT = 50


@pytest.fixture
def world(url, js, stream):
    """A stream with messages, a connection of its own to it, and the errors told there."""
    js.publish_many((f"{stream.name}.a", b"%d" % n) for n in range(COUNT))
    errors: list[BaseException | None] = []
    nc = jetsync.connect(url, on_error=lambda event: errors.append(event.error))
    yield stream, nc, errors
    nc.close()


class Slow:
    """A callback that waits for leave in its first message, and acknowledges all."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()
        self.seen: list[int] = []

    def __call__(self, msg):
        self.entered.set()
        self.leave.wait(LONG)
        msg.ack()
        self.seen.append(msg.metadata.stream_seq)


def consumer_of(kind, stream, nc):
    js = nc.jetstream()
    if kind == "ordered":
        return js.ordered_consumer(stream.name)
    return js.create_consumer(stream.name, durable_name="c", ack_wait=60)


@pytest.mark.parametrize("kind", ["plain", "ordered"])
def test_draining_the_connection_lets_consume_have_what_is_buffered(world, kind):
    """No message is lost on the way, and every acknowledgement of the callback is sent."""
    stream, nc, errors = world
    consumer = consumer_of(kind, stream, nc)
    callbacks = [Slow(), Slow()] if kind == "plain" else [Slow()]
    before = nc.stats.in_messages
    contexts = [consumer.consume(callback, max_messages=COUNT // 2) for callback in callbacks]
    for callback in callbacks:
        assert callback.entered.wait(LONG)
    # What a server is just about to send when a pull ends is delivered again after ack_wait.
    wait_until(lambda: nc.stats.in_messages - before >= COUNT // 2 * len(callbacks), timeout=LONG)
    drainer = threading.Thread(target=nc.drain, args=(LONG,))
    drainer.start()
    wait_until(lambda: nc.status is jetsync.Status.DRAINING_SUBS, timeout=LONG)
    for callback in callbacks:
        callback.leave.set()
    drainer.join(2 * LONG)
    assert nc.is_closed
    assert [context.is_active for context in contexts] == [False] * len(contexts)
    assert [context.error for context in contexts] == [None] * len(contexts)
    assert errors == []
    seen = sorted(seq for callback in callbacks for seq in callback.seen)
    assert seen == list(range(1, len(seen) + 1))
    if kind == "plain":
        consumer = stream.consumer("c")
        wait_until(lambda: consumer.info().num_ack_pending == 0, timeout=LONG)
        assert consumer.info().ack_floor.stream_seq == len(seen)


def test_a_drain_does_not_wait_longer_than_it_may(world):
    stream, nc, _ = world
    callback = Slow()
    context = consumer_of("plain", stream, nc).consume(callback)
    assert callback.entered.wait(LONG)
    with pytest.raises(jetsync.TimeoutError):
        nc.drain(0.3)
    assert nc.is_closed
    callback.leave.set()
    assert context.wait(LONG)


def test_a_callback_may_drain_its_own_connection(world):
    stream, nc, errors = world
    seen: list[int] = []

    def callback(msg):
        seen.append(msg.metadata.stream_seq)
        if len(seen) == 1:
            nc.drain(LONG)

    context = consumer_of("plain", stream, nc).consume(callback)
    assert context.wait(LONG)
    assert nc.is_closed
    assert errors == []


def test_after_close_no_callback_begins(world):
    """What is buffered could not be acknowledged any more: it comes again, elsewhere."""
    stream, nc, errors = world
    callback = Slow()
    context = consumer_of("plain", stream, nc).consume(callback)
    assert callback.entered.wait(LONG)
    closer = threading.Thread(target=nc.close)
    closer.start()
    wait_until(lambda: nc.is_closed, timeout=LONG)
    closer.join(LONG)
    callback.leave.set()
    assert context.wait(LONG)
    assert callback.seen == []  # the acknowledgement was refused
    assert errors == []


def test_a_stream_ends_with_its_connection_although_it_holds_messages(world):
    stream, nc, _ = world
    messages = consumer_of("plain", stream, nc).messages()
    assert next(messages).data == b"0"
    wait_until(lambda: messages.pending == COUNT - 1, timeout=LONG)
    nc.close()
    with pytest.raises(jetsync.ConnectionClosedError):
        next(messages)
    with pytest.raises(jetsync.ConnectionClosedError):
        messages.next(timeout=LONG)
