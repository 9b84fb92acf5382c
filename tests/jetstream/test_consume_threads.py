"""consume() shares the dispatch threads: order, isolation, recovery, and looks in time."""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync._core.mailbox import Mailbox
from jetsync._core.pulls import ALIGNMENT, PullLedger
from jetsync.jetstream.pull.alarm import Alarm
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until

LONG = 20.0


@pytest.fixture(scope="module")
def server():
    with NatsServer() as one:
        yield one


@pytest.fixture
def few(server):
    """A connection with three threads for callbacks."""
    with jetsync.connect(server.url, dispatch_threads=3) as nc:
        yield nc


def make_stream(js, name, count):
    stream = js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    js.publish_many((f"{name}.a", b"%d" % n) for n in range(count))
    return stream


def dispatching():
    return {t.name for t in threading.enumerate() if t.name.startswith("jetsync-dispatch-")}


def test_many_share_few_threads_and_each_keeps_its_order(few):
    js = few.jetstream()
    make_stream(js, "SHARE", 300)
    before = dispatching()
    seen: list[list[int]] = [[] for _ in range(12)]
    contexts = []
    for n, got in enumerate(seen):
        consumer = js.create_consumer("SHARE") if n % 2 else js.ordered_consumer("SHARE")
        contexts.append(consumer.consume(lambda msg, got=got: got.append(int(msg.data))))
    wait_until(lambda: all(len(got) == 300 for got in seen), timeout=LONG)
    assert len(dispatching() - before) <= 3
    assert all(got == list(range(300)) for got in seen)
    for context in contexts:
        context.drain(LONG)
        assert context.error is None
        assert not context.is_active


def test_stopping_while_the_callback_blocks_hands_the_rest_back_at_once(few):
    js = few.jetstream()
    consumer = make_stream(js, "STOP", 5).create_consumer(durable_name="c", ack_wait=60)
    inside, go_on = threading.Event(), threading.Event()

    def callback(msg):
        inside.set()
        assert go_on.wait(LONG)
        msg.ack()

    context = consumer.consume(callback)
    try:
        assert inside.wait(LONG)
        context.stop()
        rest = sorted(int(msg.data) for msg in consumer.fetch(4, timeout=LONG))
        assert rest == [1, 2, 3, 4]
        assert context.is_active
    finally:
        go_on.set()
    assert context.wait(LONG)
    assert context.error is None


def test_an_ordered_reader_that_waits_for_its_server_consumer_delays_no_callback(server):
    came = threading.Event()
    held, go_on = threading.Event(), threading.Event()
    seen: list[int] = []
    with jetsync.connect(server.url, dispatch_threads=1) as nc:
        js = nc.jetstream()
        stream = make_stream(js, "WAITS", 3)
        consumer = js.ordered_consumer("WAITS")
        context = consumer.consume(lambda msg: seen.append(int(msg.data)))
        wait_until(lambda: len(seen) == 3, timeout=LONG)
        create = consumer._reader._make

        def slow(timeout):
            held.set()
            assert go_on.wait(LONG)
            return create(timeout)

        consumer._reader._make = slow  # type: ignore[method-assign]
        try:
            js.delete_consumer(stream.name, consumer.name)
            assert held.wait(LONG)
            nc.subscribe("free", callback=lambda _msg: came.set())
            nc.publish("free")
            assert came.wait(LONG)
        finally:
            go_on.set()
        js.publish("WAITS.a", b"3")
        wait_until(lambda: seen == [0, 1, 2, 3], timeout=LONG)
        context.stop()
        assert context.wait(LONG)
        assert context.error is None
        wait_until(lambda: not _recovering(), timeout=LONG)


def _recovering():
    return [t for t in threading.enumerate() if t.name.startswith("jetsync-recover-")]


class _Clock:
    """A timer that runs a function when told."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, object]] = []
        self.cancelled = 0

    def later(self, seconds, function):
        self.calls.append((seconds, function))
        return self

    def cancel(self):
        self.cancelled += 1

    def ring(self):
        self.calls.pop()[1]()  # type: ignore[operator]


def test_an_alarm_that_is_set_to_later_times_keeps_one_timed_call():
    clock, mailbox, now = _Clock(), Mailbox(), 1_000_000_000.0
    alarm = Alarm(clock, mailbox)  # type: ignore[arg-type]
    alarm.set(mailbox, now)
    for more in range(100):
        alarm.set(mailbox, now + more)
    assert len(clock.calls) == 1
    alarm.set(mailbox, now - 5)
    assert (len(clock.calls), clock.cancelled) == (2, 1)
    clock.calls.pop(0)
    clock.ring()  # too early: it goes on to the right time, and wakes nothing
    assert len(clock.calls) == 1
    alarm.cancel()
    assert clock.cancelled == 2


def test_an_alarm_wakes_its_mailbox_once_when_the_last_sign_of_life_is_old():
    clock, mailbox = _Clock(), Mailbox()
    alarm = Alarm(clock, mailbox)  # type: ignore[arg-type]
    alarm.set(mailbox, mailbox.last_put + 3600, 0.0, 1e-9)
    woken = threading.Thread(target=mailbox.get)
    woken.start()
    clock.ring()
    woken.join(LONG)
    assert not woken.is_alive()
    assert not clock.calls


def test_long_pulls_end_together_and_never_later_than_asked():
    ledger = PullLedger(0.0)
    for now in (100.0, 100.1, 1234.56789):
        length = ledger.pull_length(30.0, now, aligned=True)
        assert 30.0 - ALIGNMENT <= length <= 30.0
        assert abs((now + length) / ALIGNMENT - round((now + length) / ALIGNMENT)) < 1e-6
        assert ledger.pull_length(30.0, now) == 30.0
