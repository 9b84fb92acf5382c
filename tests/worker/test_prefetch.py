"""How many messages a worker holds: as many as its handlers get through soon."""

from __future__ import annotations

import threading

import jetsync
from jetsync.worker import Worker
from jetsync.worker.prefetch import Prefetch
from tests.harness.waiting import wait_until


def _after(speed: float, prefetch: Prefetch, seconds: int = 10) -> int:
    """The limit after some seconds of handlers that get through so many messages a second."""
    for tick in range(1, 1000 * seconds):
        prefetch.note(int(speed * tick / 1000), tick / 1000)
    return prefetch.limit


def test_short_jobs_are_prefetched_for_half_a_second_up_to_a_thousand():
    assert _after(200, Prefetch(None, 8, 0, now=0.0)) in range(90, 101)
    assert _after(50_000, Prefetch(None, 8, 0, now=0.0)) == 1000
    assert _after(50_000, Prefetch(None, 8, 300, now=0.0)) == 300


def test_long_jobs_and_pauses_leave_two_messages_for_each_thread():
    prefetch = Prefetch(None, 8, 0, now=0.0)
    assert _after(3, prefetch) == 16
    busy = Prefetch(None, 8, 0, now=0.0)
    assert _after(50_000, busy) == 1000
    busy.note(500_000, 60.0)
    assert busy.limit == 16


def test_a_given_prefetch_stays():
    assert _after(50_000, Prefetch(20, 8, 0, now=0.0)) == 20


def test_a_worker_of_short_jobs_comes_to_hold_more_of_them(
    nc: jetsync.Connection, js: jetsync.JetStream
):
    stream = js.create_stream(name="JOBS", subjects=["jobs"], storage="memory")
    consumer = stream.create_consumer(durable_name="workers")
    js.publish_many(("jobs", b"") for _ in range(3000))
    go_on, count = threading.Event(), 0

    def handle(_msg: jetsync.JetStreamMsg) -> None:
        nonlocal count
        count += 1
        if count > 1500:
            go_on.wait(30)

    with Worker(consumer, handle, threads=2) as worker:
        try:
            wait_until(lambda: worker.health().in_flight == 2 and count > 1500)
            nc.flush()
            wait_until(lambda: consumer.info().num_ack_pending > 8)
        finally:
            go_on.set()
        wait_until(lambda: worker.stats.done == 3000)
