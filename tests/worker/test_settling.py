"""A message is acknowledged only when its handler has done it, and what is held comes to an end."""

from __future__ import annotations

import threading

import pytest

from jetsync import JetStreamMsg
from jetsync.worker import Backoff, Worker
from tests.harness.waiting import wait_until
from tests.worker.sources import MadeSource


def test_what_a_handler_hands_back_is_handled_again(made_source: MadeSource):
    handled: list[int] = []

    def handle(msg: JetStreamMsg) -> None:
        handled.append(msg.metadata.num_delivered)
        if len(handled) == 1:
            msg.nak(5)

    with Worker(made_source, handle) as worker:
        first = made_source.deliver(1, 1)
        wait_until(lambda: worker.stats.done == 1)
        again = made_source.deliver(1, 2, num_delivered=2)
        wait_until(lambda: worker.stats.done == 2 or again.outcome)
        wait_until(lambda: again.outcome)
    assert handled == [1, 2]
    assert (first.outcome, again.outcome) == ("nak", "ack")


@pytest.mark.parametrize("comes", ["before", "after"])
def test_a_handler_that_hands_back_speaks_for_a_delivery_that_came_before_it_did(
    made_source: MadeSource, comes: str
):
    """One that came after it is handed back as well: no handler has it."""
    running, seen, end = threading.Event(), threading.Event(), threading.Event()

    def handle(msg: JetStreamMsg) -> None:
        if comes == "after":
            msg.nak(5)
        running.set()
        seen.wait(10)
        if comes == "before":
            msg.nak(5)
        end.wait(10)

    with Worker(made_source, handle) as worker:
        made_source.deliver(1, 1)
        assert running.wait(10)
        again = made_source.deliver(1, 2, num_delivered=2)
        made_source.deliver(2, 3)
        wait_until(lambda: worker.health().in_flight == 2)  # the one before it is taken, too
        seen.set()
        end.set()
        wait_until(lambda: worker.stats.done == 2)
    assert again.outcome == (None if comes == "before" else "nak")


def test_what_is_delivered_anew_after_a_reset_is_handled(made_source: MadeSource):
    """A second delivery of what is done is acknowledged only; the count begins again at a reset."""
    handled: list[int] = []
    with Worker(made_source, lambda msg: handled.append(msg.metadata.consumer_seq)) as worker:
        made_source.deliver(1, 1)
        wait_until(lambda: worker.stats.done == 1)
        lost = made_source.deliver(1, 2, num_delivered=2)
        wait_until(lambda: lost.outcome == "ack")
        made_source.deliver(1, 3, num_delivered=1)
        wait_until(lambda: worker.stats.done == 2)
    assert handled == [1, 3]


@pytest.mark.timed
def test_handlers_that_fail_while_it_drains_do_not_keep_it_from_its_end(made_source: MadeSource):
    begun, end = threading.Barrier(3), threading.Event()

    def handle(msg: JetStreamMsg) -> None:
        begun.wait(10)
        end.wait(10)
        if msg.metadata.stream_seq == 2:
            threading.Event().wait(0.2)  # the drain has told the other threads to end
        raise ValueError

    worker = Worker(
        made_source,
        handle,
        threads=2,
        key=lambda msg: msg.metadata.stream_seq,
        retry=Backoff(30),
        drain_timeout=10,
    ).start()
    made_source.deliver(1, 1)
    made_source.deliver(2, 2)
    begun.wait(10)
    timer = threading.Timer(0.3, end.set)
    timer.start()
    report = worker.drain()
    timer.join()
    assert (report.released, report.unfinished) == (2, 0)
    assert report.seconds < 5


def test_what_waits_for_lost_deliveries_is_handed_back_when_it_stops(made_source: MadeSource):
    with Worker(made_source, lambda msg: None, key="subject") as worker:
        made_source.deliver(1, 1)
        wait_until(lambda: worker.stats.done == 1)
        behind = made_source.deliver(5, 5)
        wait_until(lambda: made_source.taken == 2)
        worker.stop()
        report = worker.wait(5)
    assert behind.outcome == "nak"
    assert (report.done, report.released) == (1, 1)
