"""Messages of one key are never handled at once, and always in the order of the stream."""

from __future__ import annotations

import collections
import functools
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import jetsync
from jetsync.worker import Backoff, Worker
from jetsync.worker.intake import Order
from jetsync.worker.lanes import Lanes
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until
from tests.worker.conftest import Place


class Orders:
    """A handler that notes successes by subject, and fails one job in ten at its first try."""

    def __init__(self) -> None:
        self.done: dict[str, list[int]] = collections.defaultdict(list)
        self.running: set[str] = set()
        self.overlaps = 0
        self._failed: set[int] = set()

    def __call__(self, msg: jetsync.JetStreamMsg) -> None:
        number = int(msg.data)
        self.overlaps += msg.subject in self.running
        self.running.add(msg.subject)
        try:
            if number % 10 == 3 and number not in self._failed:
                self._failed.add(number)
                raise ValueError(number)
            self.done[msg.subject].append(number)
        finally:
            self.running.discard(msg.subject)

    def has(self, least: int) -> bool:
        return self.count >= least

    @property
    def count(self) -> int:
        return sum(map(len, list(self.done.values())))


def test_the_successes_of_a_key_are_in_stream_order(place: Place):
    place.fill(10_000, keys=200)
    orders = Orders()
    with Worker(
        place.consumer(),
        orders,
        threads=16,
        prefetch=400,
        key="subject:2",
        retry=Backoff(0.01),
    ) as worker:
        wait_until(lambda: orders.count == 10_000, timeout=60)
    assert orders.overlaps == 0
    assert all(numbers == sorted(set(numbers)) for numbers in orders.done.values())
    assert worker.stats.retried == 1000


def test_a_key_that_waits_for_its_next_try_holds_the_others_of_its_key_only(place: Place):
    place.fill(20, keys=2)
    seen: list[int] = []

    def handle(msg: jetsync.JetStreamMsg) -> None:
        if msg.data == b"0" and len(seen) < 10:
            raise ValueError("until the others are done")
        seen.append(int(msg.data))

    with Worker(
        place.consumer(),
        handle,
        threads=2,
        prefetch=20,
        key="subject",
        retry=Backoff(0.05, factor=1, tries=None),
        crash_tries=1000,
    ):
        wait_until(lambda: len(seen) == 20, timeout=10)
    assert seen[:10] == list(range(1, 20, 2))
    assert seen[10:] == list(range(0, 20, 2))


def test_held_keys_that_fill_prefetch_are_a_problem_of_health(place: Place):
    place.fill(10)
    go = threading.Event()
    with Worker(
        place.consumer(), lambda msg: go.wait(10), threads=2, prefetch=4, key="header:None"
    ) as worker:
        wait_until(lambda: any("prefetch" in text for text in worker.health().problems))
        go.set()
        wait_until(lambda: worker.stats.done == 10)


def test_what_a_dead_worker_has_left_comes_before_what_is_new(place: Place):
    """Its messages are delivered again after ack_wait, and new ones of their keys wait for them."""
    place.fill(20, keys=2)
    consumer = place.consumer(ack_wait=0.5)
    assert len(consumer.fetch(6, timeout=5)) == 6  # a worker that was killed with them
    orders = Orders()
    with Worker(consumer, orders, key="subject", retry=Backoff(0.01)) as worker:
        assert "before it" in worker.health().problems[0]
        wait_until(lambda: orders.count == 20, timeout=15)
    assert all(numbers == sorted(numbers) for numbers in orders.done.values())


def test_what_a_dead_worker_has_left_is_in_order_whatever_was_kept_alive_last(place: Place):
    """The server delivers it again in the order in which its time ran out."""
    place.fill(20)
    consumer = place.consumer(ack_wait=0.6)
    first, *_ = consumer.fetch(6, timeout=5)  # a worker that was killed with them
    fetched = time.monotonic()
    wait_until(lambda: time.monotonic() > fetched + 0.3)  # after which the time of these is over
    first.in_progress()
    done: list[int] = []
    with Worker(
        consumer, lambda msg: done.append(int(msg.data)), threads=4, key="subject"
    ) as worker:
        wait_until(lambda: len(done) == 20, timeout=15)
    assert done == list(range(20))
    assert worker.health().problems == ["it has ended: drained"]


def is_missing(worker: Worker) -> bool:
    return any("did not come again" in text for text in worker.health().problems)


def test_what_another_worker_holds_is_a_problem_until_it_has_handled_it(place: Place):
    """As in a rolling deployment: the old worker ends when its handlers do."""
    place.fill(10, keys=2)
    consumer, held, go = place.consumer(ack_wait=0.5), [], threading.Event()

    def slow(msg: jetsync.JetStreamMsg) -> None:
        held.append(msg.data)
        go.wait(60)

    orders = Orders()
    with Worker(consumer, slow, threads=2, prefetch=2) as old:
        wait_until(lambda: len(held) == 2)
        old.stop()
        with Worker(consumer, orders, key="subject") as worker:
            wait_until(lambda: is_missing(worker), timeout=30)
            wait_until(lambda: orders.count == 8, timeout=30)
            assert is_missing(worker), "the other worker still holds two"
            go.set()
            wait_until(lambda: not worker.health().problems, timeout=30)


def looked_at(order: Order, feed: SimpleNamespace, *infos: tuple[int, int]) -> list[bool]:
    """Whether there is a problem after each look that finds so much delivered and settled."""
    found = []
    for delivered, settled in infos:
        info = SimpleNamespace(
            delivered=SimpleNamespace(stream_seq=delivered),
            ack_floor=SimpleNamespace(stream_seq=settled),
        )
        feed.consumer.info = lambda info=info: info
        order._look_at = 0.0
        order.end_wait()
        found.append(order.problem is not None)
    return found


def test_a_problem_lasts_until_what_was_delivered_then_is_settled():
    """Not for what came since; and after three times in vain for good."""
    feed = SimpleNamespace(ack_wait=0.01, consumer=SimpleNamespace(), free=lambda count: None)
    order = Order(lambda msg: None, Lanes(lambda job: None), cast("Any", feed), 0)
    for turn in range(3):
        order.saw(1 + 10 * turn)
        order.saw(3 + 10 * turn)  # one is lost
        order._until = 0.0
        order.end_wait()
        assert order.problem is not None
        lasts = looked_at(order, feed, (7, 3), (9, 6), (12, 7))
        assert lasts == ([True, True, False] if turn < 2 else [True] * 3)


def test_the_order_holds_when_deliveries_are_lost_with_a_link(place: Place):
    """Messages on their way when a link breaks come again later than those behind them."""
    place.fill(3000, keys=20)
    place.consumer(ack_wait=1.0)
    orders = Orders()
    with Proxy(place.url) as link, jetsync.connect(link.url, ping_interval=1) as nc:
        consumer = nc.jetstream().consumer(place.name, "w")
        with Worker(consumer, orders, prefetch=200, key="subject", retry=Backoff(0.01)) as worker:
            for cut in range(3):
                wait_until(functools.partial(orders.has, 400 * (cut + 1)), timeout=30)
                link.cut()
            wait_until(lambda: orders.count >= 3000, timeout=60)
            assert worker.stats.done >= 3000
    assert orders.overlaps == 0
    for numbers in orders.done.values():
        assert list(dict.fromkeys(numbers)) == sorted(set(numbers))
        assert len(set(numbers)) == 150


def test_a_message_that_comes_again_while_it_is_held_is_handled_once(place: Place):
    place.fill(1)
    calls = []
    consumer = place.consumer(ack_wait=0.5)
    go = threading.Event()

    def handle(msg: jetsync.JetStreamMsg) -> None:
        calls.append(msg.metadata.num_delivered)
        go.wait(10)

    with Worker(consumer, handle, threads=4, max_runtime=0.1):  # then it is not kept alive
        wait_until(lambda: calls)
        wait_until(lambda: consumer.info().num_redelivered >= 1, timeout=10)
        go.set()
        wait_until(lambda: consumer.info().num_ack_pending == 0, timeout=10)
    assert calls == [1]


def test_a_message_that_its_handler_hands_back_is_handled_again(place: Place):
    """At once, or after it was delivered again to a handler that goes on."""
    place.fill(2)
    calls: collections.Counter[bytes] = collections.Counter()
    consumer = place.consumer()

    def handle(msg: jetsync.JetStreamMsg) -> None:
        calls[msg.data] += 1
        if calls[msg.data] == 1:
            msg.nak()
            if msg.data == b"1":
                wait_until(lambda: consumer.info().num_redelivered >= 1, timeout=10)

    with Worker(consumer, handle, threads=4):
        wait_until(lambda: calls == {b"0": 2, b"1": 2}, timeout=10)
        wait_until(lambda: consumer.info().num_ack_pending == 0, timeout=10)
