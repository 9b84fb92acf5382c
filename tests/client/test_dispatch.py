"""Callbacks share threads: order, isolation, and what many of them cost."""

from __future__ import annotations

import threading
import time

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until

LONG = 20.0


@pytest.fixture(scope="module")
def server():
    with NatsServer() as one:
        yield one


def dispatching():
    return [t for t in threading.enumerate() if t.name.startswith("jetsync-dispatch-")]


def test_each_callback_gets_its_messages_in_order_when_many_share_few_threads(server):
    subjects, each = 40, 200
    seen: dict[str, list[int]] = {f"a.{n}": [] for n in range(subjects)}
    inside: set[str] = set()
    twice: list[str] = []

    def callback(msg):
        if msg.subject in inside:
            twice.append(msg.subject)
        inside.add(msg.subject)
        seen[msg.subject].append(int(msg.data))
        if int(msg.data) % 50 == 0:
            time.sleep(0)  # lets another thread in
        inside.discard(msg.subject)

    with jetsync.connect(server.url, dispatch_threads=3) as nc:
        wait_until(lambda: not dispatching(), timeout=LONG)  # of the tests before
        before = len(dispatching())
        for subject in seen:
            nc.subscribe(subject, callback=callback)
        for number in range(each):
            for subject in seen:
                nc.publish(subject, b"%d" % number)
        nc.flush(LONG)
        wait_until(lambda: all(len(got) == each for got in seen.values()), timeout=LONG)
        wait_until(lambda: len(dispatching()) - before <= 3, timeout=LONG)
    assert all(got == list(range(each)) for got in seen.values())
    assert not twice


def test_a_callback_that_blocks_delays_no_other_while_a_thread_is_left(server):
    hold, blocked, arrived = threading.Event(), threading.Semaphore(0), threading.Event()

    def wait(_msg):
        blocked.release()
        assert hold.wait(LONG)

    nc = jetsync.connect(server.url, dispatch_threads=4)
    try:
        for n in range(20):
            nc.subscribe(f"b.{n}", callback=wait)
        nc.subscribe("free", callback=lambda _msg: arrived.set())
        for n in range(3):
            nc.publish(f"b.{n}")
        for _ in range(3):
            assert blocked.acquire(timeout=LONG)
        nc.publish("free")
        assert arrived.wait(LONG)
    finally:
        hold.set()
        nc.close()


def test_when_every_thread_is_kept_the_others_wait_and_lose_nothing(server):
    hold, blocked, got = threading.Event(), threading.Semaphore(0), []

    def wait(_msg):
        blocked.release()
        assert hold.wait(LONG)

    with jetsync.connect(server.url, dispatch_threads=2) as nc:
        for n in range(2):
            nc.subscribe(f"c.{n}", callback=wait)
        late = nc.subscribe("late", callback=lambda msg: got.append(int(msg.data)))
        for n in range(2):
            nc.publish(f"c.{n}")
        for _ in range(2):
            assert blocked.acquire(timeout=LONG)
        for n in range(10):
            nc.publish("late", b"%d" % n)
        nc.flush(LONG)
        wait_until(lambda: late.pending_messages == 10, timeout=LONG)
        assert got == []
        hold.set()
        wait_until(lambda: len(got) == 10, timeout=LONG)
    assert got == list(range(10))


def test_a_callback_has_64_messages_in_a_row_before_the_next_has_its_turn(server):
    hold, got = threading.Event(), []

    def note(msg):
        got.append((msg.subject, int(msg.data)))

    with jetsync.connect(server.url, dispatch_threads=1) as nc:
        nc.subscribe("hold", callback=lambda _msg: hold.wait(LONG))
        subs = {name: nc.subscribe(name, callback=note) for name in ("g.1", "g.2")}
        nc.publish("hold")
        for n in range(100):
            nc.publish("g.1", b"%d" % n)
            if n < 3:
                nc.publish("g.2", b"%d" % n)
        nc.flush(LONG)
        wait_until(lambda: [s.pending_messages for s in subs.values()] == [100, 3], timeout=LONG)
        hold.set()
        wait_until(lambda: len(got) == 103, timeout=LONG)
    first = [("g.1", n) for n in range(64)]
    assert got == [*first, *(("g.2", n) for n in range(3)), *(("g.1", n) for n in range(64, 100))]


def test_threads_come_with_callbacks_and_go_with_them(server):
    with jetsync.connect(server.url, dispatch_threads=4) as nc:
        wait_until(lambda: not dispatching(), timeout=LONG)  # of the tests before
        before = len(dispatching())
        subs = [nc.subscribe(f"d.{n}", callback=print) for n in range(10)]
        # One that was started before another had entered ends by itself.
        wait_until(lambda: len(dispatching()) - before == 4, timeout=LONG)
        for sub in subs[:8]:
            sub.unsubscribe()
        wait_until(lambda: len(dispatching()) - before == 2, timeout=LONG)
        for sub in subs[8:]:
            sub.drain(LONG)
        wait_until(lambda: len(dispatching()) == before, timeout=LONG)
        got = threading.Event()
        nc.subscribe("again", callback=lambda _msg: got.set())
        nc.publish("again")
        assert got.wait(LONG)


def test_a_callback_that_raises_anything_leaves_its_thread_to_the_others(server):
    errors, got = [], []

    def broken(msg):
        raise [ValueError, SystemExit, KeyboardInterrupt, MemoryError][int(msg.data) % 4]("mine")

    def note(event):
        errors.append(event.error)

    with jetsync.connect(server.url, dispatch_threads=1, on_error=note) as nc:
        nc.subscribe("e", callback=broken)
        nc.subscribe("f", callback=got.append)
        for n in range(8):
            nc.publish("e", b"%d" % n)
            nc.publish("f")
        wait_until(lambda: len(errors) == 8 and len(got) == 8, timeout=LONG)


class Interrupting:
    """A group whose steps are broken off, each before or after it was done."""

    def __init__(self, group, step, done):
        self._group, self._step, self._done = group, step, done

    def __getattr__(self, name):
        if name != self._step:
            return getattr(self._group, name)

        def broken_off(task):
            if self._done:
                getattr(self._group, name)(task)
            raise KeyboardInterrupt

        return broken_off


@pytest.mark.parametrize("step", ["add", "start", "begin"])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_subscribe_that_ctrl_c_breaks_off_costs_no_thread_and_leaves_none(
    server, monkeypatch, step, done
):
    def start_and_break_off(*arguments):
        if done:
            start(*arguments)
        raise KeyboardInterrupt

    got: list[jetsync.Msg] = []
    wait_until(lambda: not dispatching(), timeout=LONG)  # of the tests before
    with jetsync.connect(server.url, dispatch_threads=1) as nc:
        start = nc._threads.start
        for _ in range(3):
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                dispatcher = nc._dispatcher
                if step == "start":
                    patch.setattr(nc._threads, "start", start_and_break_off)
                patch.setattr(dispatcher, "group", Interrupting(dispatcher.group, step, done))
                nc.subscribe("a", callback=got.append)
            wait_until(lambda: not dispatching(), timeout=LONG)
        for _ in range(2):
            nc.subscribe("a", callback=got.append)
            # One that was started before the first had entered ends by itself.
            wait_until(lambda: len(dispatching()) == 1, timeout=LONG)
        nc.publish("a")
        wait_until(lambda: len(got) == 2, timeout=LONG)
    wait_until(lambda: not dispatching(), timeout=LONG)


def test_closing_from_a_callback_that_has_the_only_thread_ends_soon(server):
    closed = threading.Event()
    nc = jetsync.connect(server.url, dispatch_threads=1)
    others = [nc.subscribe(f"g.{n}", callback=print) for n in range(5)]

    def close(_msg):
        nc.close()
        closed.set()

    nc.subscribe("close", callback=close)
    nc.publish("close")
    assert closed.wait(LONG)
    wait_until(lambda: not any(sub.is_active for sub in others), timeout=LONG)


def test_push_subscriptions_share_the_threads_too(server):
    with jetsync.connect(server.url, dispatch_threads=2) as nc:
        js = nc.jetstream()
        js.create_stream(name="PUSHED", subjects=["h.*"], storage="memory")
        wait_until(lambda: not dispatching(), timeout=LONG)  # of the tests before
        before = len(dispatching())
        seen: dict[int, list[int]] = {n: [] for n in range(6)}

        def callback(msg):
            seen[int(msg.subject[2:])].append(int(msg.data))

        subs = [js.subscribe(f"h.{n}", callback=callback) for n in seen]
        for number in range(50):
            for n in seen:
                nc.publish(f"h.{n}", b"%d" % number)
        wait_until(lambda: all(len(got) == 50 for got in seen.values()), timeout=LONG)
        wait_until(lambda: len(dispatching()) - before == 2, timeout=LONG)
        assert all(got == list(range(50)) for got in seen.values())
        for sub in subs:
            sub.drain(LONG)
        assert js.stream("PUSHED").info().state.consumer_count == 0


def test_the_number_of_threads_is_checked(server):
    with pytest.raises(jetsync.ConfigError, match="dispatch_threads"):
        jetsync.connect(server.url, dispatch_threads=0)


def cost(server, count: int, messages: int) -> float:
    """Seconds of CPU of this process for messages spread over so many callbacks."""
    left = threading.Semaphore(0)

    def callback(msg):
        if msg.data:
            left.release()

    with jetsync.connect(server.url) as nc, jetsync.connect(server.url) as publisher:
        subjects = [f"cost.{n}" for n in range(count)]
        for subject in subjects:
            nc.subscribe(subject, callback=callback)
        nc.flush(LONG)
        begun = time.process_time()
        for number in range(messages):
            publisher.publish(subjects[number % count])
        for subject in subjects:
            publisher.publish(subject, b"last")
        for _ in range(count):
            assert left.acquire(timeout=LONG)
        return (time.process_time() - begun) / messages


@pytest.mark.timed
def test_a_message_costs_no_more_when_eight_times_as_many_callbacks_share_the_threads(server):
    few = min(cost(server, 200, 40_000) for _ in range(2))
    many = min(cost(server, 1_600, 40_000) for _ in range(2))
    assert many <= 4 * few, f"{many * 1e6:.2f} us after {few * 1e6:.2f} us"
