"""Every way of consuming over every kind of link: each message comes once and in order, buffers
keep their bounds, no heartbeat counts as missed and no consumer is made anew.

A few links for every commit; all of them, in all sizes that fit, in the long form.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import jetsync
from tests.harness.conditioner import Link
from tests.reliability.link_cells import KIB, MB, Cell, cells

PATIENCE = 120.0


def short() -> list[Cell]:
    return [(0.1, None, 128, 30), (0.03, 5 * MB, 64 * KIB, 12), (0.005, 200_000, 100_000, 3)]


class Reading:
    """One way of consuming at work: what came, and what was told on the way."""

    def __init__(self, js: Any, stream: str, count: int) -> None:
        self.js, self.stream, self.count = js, stream, count
        self.got: list[int] = []
        self.deliveries: set[int] = set()
        self.warnings: list[BaseException | None] = []
        self.until = time.monotonic() + PATIENCE

    def add(self, msg: Any, *, ack: bool = True) -> None:
        self.got.append(int(msg.data.split(b" ", 1)[0]))
        self.deliveries.add(msg.metadata.num_delivered)
        if ack:
            msg.ack()

    def is_done(self) -> bool:
        assert time.monotonic() < self.until, f"only {self.got} came"
        return len(self.got) >= self.count

    def consumer(self, **fields: Any) -> Any:
        fields = {"ack_wait": PATIENCE, "max_deliver": 1, **fields}
        return self.js.create_consumer(self.stream, mem_storage=True, **fields)

    def fetch_with(self, fetch: Callable[[], Any]) -> None:
        """Fetch until all came; what is still on its way is there for the next call."""
        while not self.is_done():
            try:
                batch = fetch()
            except jetsync.PullUnansweredError as error:
                if error.cause != "link":  # a message is on its way, and the server answers
                    raise
                continue
            assert batch.error is None
            for msg in batch:
                self.add(msg)


def fetch(reading):
    consumer = reading.consumer()
    reading.fetch_with(lambda: consumer.fetch(7, timeout=0.5))


def fetch_bytes(reading):
    consumer = reading.consumer(ack_policy="none")
    reading.fetch_with(lambda: consumer.fetch(max_bytes=6 * MB, timeout=1))


def fetch_eager(reading):
    consumer = reading.consumer()
    reading.fetch_with(lambda: consumer.fetch(5, timeout=2, eager=True))


def fetch_no_wait(reading):
    consumer = reading.consumer(ack_policy="none")
    reading.fetch_with(lambda: consumer.fetch_no_wait(5, timeout=2))


def take_one_by_one(reading):
    consumer = reading.consumer()
    while not reading.is_done():
        reading.add(consumer.next(timeout=PATIENCE))


def ack_and_next(reading):
    msg = reading.consumer().next(timeout=PATIENCE)
    reading.add(msg, ack=False)
    while not reading.is_done():
        (msg,) = msg.ack_next(timeout=PATIENCE)
        reading.add(msg, ack=False)


def pull_subscribe(reading):
    name = reading.consumer(durable_name="old").name
    sub = reading.js.pull_subscribe(stream=reading.stream, consumer=name)
    while not reading.is_done():
        for msg in sub.fetch(5, timeout=PATIENCE):
            reading.add(msg)


def take_stream(reading, **options):
    """Read with ``messages``; the server never has more out than the bound."""
    consumer = reading.consumer()
    with consumer.messages(
        heartbeat=0.5, on_warning=reading.warnings.append, **options
    ) as messages:
        while not reading.is_done():
            reading.add(messages.next(timeout=PATIENCE))
            bound = options.get("max_messages")
            assert bound is None or messages.pending <= bound


def messages_by_count(reading):
    take_stream(reading, max_messages=4)


def messages_by_bytes(reading):
    take_stream(reading, max_bytes=6 * MB)


def messages_by_default(reading):
    take_stream(reading)


def consume(reading):
    consumer = reading.consumer()
    done = threading.Event()

    def callback(msg):
        reading.add(msg)
        if reading.is_done():
            done.set()

    with consumer.consume(callback, heartbeat=0.5, on_warning=reading.warnings.append):
        assert done.wait(PATIENCE)


def ordered(reading):
    with reading.js.ordered_consumer(reading.stream) as one:
        with one.messages(heartbeat=0.5, on_warning=reading.warnings.append) as messages:
            while not reading.is_done():
                reading.add(messages.next(timeout=PATIENCE))
        assert one.resets == 0


def ordered_fetch(reading):
    with reading.js.ordered_consumer(reading.stream) as one:
        reading.fetch_with(lambda: one.fetch(5, timeout=0.5))
        assert one.resets == 0


def push(reading):
    with reading.js.subscribe(
        stream=reading.stream, ack_policy="none", heartbeat=1, flow_control=True
    ) as sub:
        while not reading.is_done():
            reading.add(sub.next(timeout=PATIENCE))


def ordered_push(reading):
    with reading.js.subscribe(f"{reading.stream}.a", ordered=True, heartbeat=5) as sub:
        while not reading.is_done():
            reading.add(sub.next(timeout=PATIENCE))
        assert sub.resets == 0


WAYS: list[Callable[[Reading], None]] = [
    fetch,
    fetch_bytes,
    fetch_eager,
    fetch_no_wait,
    take_one_by_one,
    ack_and_next,
    pull_subscribe,
    messages_by_count,
    messages_by_bytes,
    messages_by_default,
    consume,
    ordered,
    ordered_fetch,
    push,
    ordered_push,
]


@pytest.fixture(scope="module", params=cells(short()), ids=lambda cell: "-".join(map(str, cell)))
def cell(request, far_server, link_process):
    """A stream with its messages, and a JetStream object at the far end of the link."""
    rtt, bandwidth, size, count = request.param
    with jetsync.connect(far_server.url) as near:
        js = near.jetstream()
        js.create_stream(name="M", subjects=["M.>"], storage="memory")
        for n in range(count):
            js.publish("M.a", b"%d " % n + b"x" * size)
        told: list[BaseException | None] = []
        with (
            Link(far_server.url, rtt=rtt, bandwidth=bandwidth, process=link_process) as link,
            jetsync.connect(
                link.url, timeout=PATIENCE, on_error=lambda event: told.append(event.error)
            ) as far,
        ):
            yield far.jetstream(timeout=PATIENCE), count, told
            far.close()
        js.delete_stream("M")


@pytest.mark.timeout(3 * PATIENCE)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_message_comes_once_and_in_order(cell, way):
    js, count, told = cell
    told.clear()
    reading = Reading(js, "M", count)
    way(reading)
    assert reading.got == list(range(count))
    assert reading.deliveries == {1}
    assert reading.warnings == []
    assert told == []
