"""A message is acknowledged only when its handler has done it, and what is held comes to an end."""

from __future__ import annotations

import threading
import time
import urllib.request
from typing import Any

import pytest

from jetsync import ConfigError, JetStreamMsg
from jetsync._deadline import Deadline
from jetsync._threads import library_threads
from jetsync.server.ports import free_port
from jetsync.worker import Backoff, Reject, Retry, Worker
from tests.harness.waiting import wait_until
from tests.worker.conftest import Place
from tests.worker.sources import MadeSource


def test_what_a_handler_hands_back_is_handled_again(made_source: MadeSource):
    handled: list[int] = []

    def handle(msg: JetStreamMsg) -> None:
        handled.append(msg.metadata.num_delivered)
        if len(handled) == 1:
            msg.nak(5)

    with Worker(made_source, handle) as worker:
        first = made_source.deliver(1, 1)
        wait_until(lambda: worker.stats.retried == 1)
        again = made_source.deliver(1, 2, num_delivered=2)
        wait_until(lambda: again.outcome)
    assert handled == [1, 2]
    assert (first.outcome, again.outcome) == ("nak", "ack")


@pytest.mark.parametrize("delay", [float("inf"), 10**400, -1, float("nan"), "1"])
def test_a_retry_that_no_server_can_keep_is_a_failure_of_the_handler(
    made_source: MadeSource, delay: Any
):
    def handle(msg: JetStreamMsg) -> None:
        raise Retry(delay)

    with Worker(made_source, handle, retry=Backoff(0.05)) as worker:
        first = made_source.deliver(1, 1)
        wait_until(lambda: first.outcome)
        assert (worker.stats.retried, first.outcome) == (1, "nak")
    with pytest.raises(ConfigError, match="delay must "):
        Retry(delay)


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
        wait_until(lambda: worker.stats.retried == 2)
    assert again.outcome == (None if comes == "before" else "nak")


@pytest.mark.parametrize(
    ("consumer_seq", "num_delivered"), [(1, 1), (20, 1), (21, 2), (7, 2), (60, 3)]
)
def test_what_is_delivered_after_it_was_done_is_handled_again(
    made_source: MadeSource, consumer_seq: int, num_delivered: int
):
    """The consumer may have been reset, and another worker may have had the deliveries between."""
    handled: list[int] = []
    with Worker(made_source, lambda msg: handled.append(msg.metadata.stream_seq)) as worker:
        made_source.deliver(13, 20)
        wait_until(lambda: worker.stats.done == 1)
        again = made_source.deliver(13, consumer_seq, num_delivered)
        wait_until(lambda: again.outcome)
    assert handled == [13, 13]


@pytest.mark.timed
def test_handlers_that_fail_while_it_drains_do_not_keep_it_from_its_end(made_source: MadeSource):
    begun, end = threading.Barrier(3), threading.Event()

    def handle(msg: JetStreamMsg) -> None:
        begun.wait(10)
        end.wait(10)
        if msg.metadata.stream_seq == 2:
            time.sleep(0.2)  # the drain has told the other threads to end
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


def test_a_message_that_crashed_too_often_is_never_handled_while_its_dead_letter_is_refused(
    made_source: MadeSource,
):
    handled: list[JetStreamMsg] = []
    with Worker(
        made_source,
        handled.append,
        key="subject",
        dead_letter="dead",
        retry=Backoff(0.01, limit=0.01),
    ) as worker:
        poison = made_source.deliver(1, 1, num_delivered=11)
        wait_until(lambda: worker.stats.retried >= 2)
        made_source.is_refusing = False
        wait_until(lambda: worker.stats.dead == 1)
    assert handled == []
    assert poison.outcome == "term"
    assert {headers["Dead-Letter-Deliveries"][0] for headers in made_source.letters} == {"11"}


def test_a_key_goes_on_after_a_message_that_could_not_be_settled(made_source: MadeSource):
    """No dead letter can be made of it: it comes again when ack_wait is over."""
    made_source.is_broken = True

    def handle(msg: JetStreamMsg) -> None:
        if msg.metadata.stream_seq == 1:
            raise Reject

    with Worker(made_source, handle, key="subject", dead_letter="dead") as worker:
        made_source.deliver(1, 1)
        behind = made_source.deliver(2, 2)
        wait_until(lambda: behind.outcome == "ack")
        wait_until(lambda: worker.stats.done == 1)
    assert worker.stats.released == 1


def test_a_message_that_ran_too_long_is_kept_alive_again_at_its_next_try(made_source: MadeSource):
    kept_alive: list[list[JetStreamMsg]] = []

    def handle(msg: JetStreamMsg) -> None:
        if not made_source.events:
            wait_until(lambda: made_source.events == ["stuck"])
            kept_alive.append(made_source.kept_alive())
            raise ValueError
        kept_alive.append(made_source.kept_alive())

    with Worker(made_source, handle, key="subject", retry=Backoff(0.01), max_runtime=0.5) as worker:
        msg = made_source.deliver(1, 1)
        wait_until(lambda: worker.stats.done == 1)
    assert kept_alive == [[], [msg]]


def test_ctrl_c_while_it_drains_closes_everything(
    made_source: MadeSource, monkeypatch: pytest.MonkeyPatch
):
    running, end = threading.Event(), threading.Event()

    def handle(msg: JetStreamMsg) -> None:
        running.set()
        end.wait(10)

    before = library_threads()
    worker = Worker(made_source, handle, threads=2).start()
    made_source.deliver(1, 1)
    assert running.wait(10)

    taking = threading.Event()

    def take(seconds: float) -> list[JetStreamMsg]:
        taking.set()
        end.wait(10)
        return []

    def interrupted(_deadline: Deadline, _seconds: float) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(made_source, "take", take)
    assert taking.wait(10)

    with monkeypatch.context() as patch:
        patch.setattr(Deadline, "within", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.drain()
    end.set()
    assert not made_source.is_kept_alive
    assert not made_source.is_open
    assert worker.wait(5).unfinished == 1
    wait_until(lambda: library_threads() <= before)


def test_a_worker_that_could_not_start_is_not_waited_for(
    made_source: MadeSource, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(made_source, "keep_alive", None)
    worker = Worker(made_source, print)
    with pytest.raises(TypeError):
        worker.start()
    for end in (worker.wait, worker.drain):
        with pytest.raises(ConfigError, match="could not be started"):
            end(1)
    assert not made_source.is_open
    assert not worker.is_running


def test_what_a_handler_raises_cannot_forge_lines_of_the_log(
    made_source: MadeSource, caplog: pytest.LogCaptureFixture
):
    def handle(msg: JetStreamMsg) -> None:
        raise ValueError("bad\n\x1b[31mERROR forged")

    with Worker(made_source, handle) as worker:
        made_source.deliver(1, 1)
        wait_until(lambda: worker.stats.retried == 1)
    (line,) = [record.getMessage() for record in caplog.records if "try 1" in record.getMessage()]
    assert line.endswith("ValueError: bad\\n\\x1b[31mERROR forged")


def test_a_source_that_is_idle_and_cannot_be_told_to_go_on_is_taken_from(place: Place):
    """Its messages() has next() and stop() only."""

    class Plain:
        def __init__(self) -> None:
            self.consumer = place.consumer()

        def messages(self, **options: Any) -> Plain:
            del options["stop_after"]
            self._stream = self.consumer.messages(**options)
            return self

        def next(self, timeout: float) -> JetStreamMsg:
            return self._stream.next(timeout)

        def stop(self) -> None:
            self._stream.stop()

    with Worker(Plain(), lambda msg: None, threads=1, prefetch=2) as worker:
        time.sleep(0.7)  # longer than it waits for a message at a time
        place.fill(10)
        wait_until(lambda: worker.stats.done == 10, timeout=10)


def test_health_listens_on_addresses_of_both_kinds(made_source: MadeSource):
    port = free_port()
    with (
        Worker(made_source, print, http=f"[::1]:{port}"),
        urllib.request.urlopen(f"http://[::1]:{port}/livez", timeout=5) as answer,
    ):
        assert answer.status == 200


def test_the_last_acknowledgements_get_what_is_left_of_a_drain(made_source: MadeSource):
    with Worker(None, print) as worker:
        worker.drain(timeout=1.0)
    (limit,) = made_source.flush_limits
    assert limit is not None
    assert limit <= 1.0


@pytest.mark.parametrize("drains", [1, 2])
@pytest.mark.timed
def test_a_drain_keeps_its_time_also_when_the_end_has_begun_with_more_of_it(
    made_source: MadeSource, drains: int
):
    """The thread that watches ends a worker whose connection is gone, or another drain does."""
    begun, end = threading.Event(), threading.Event()

    def handle(_: JetStreamMsg) -> None:
        begun.set()
        end.wait(30)

    worker = Worker(None, handle, threads=1, drain_timeout=20).start()
    running, waiting = made_source.deliver(1, 1), made_source.deliver(2, 2)
    assert begun.wait(10)
    wait_until(lambda: made_source.taken == 2)
    if drains == 1:
        made_source.is_closed = True
        worker.stop()
        first = threading.Thread(target=worker.wait)
    else:
        first = threading.Thread(target=worker.drain)
    first.start()
    wait_until(lambda: waiting.outcome == "nak", timeout=10)  # the end has begun
    started = time.monotonic()
    report = worker.drain(timeout=0.2)
    took = time.monotonic() - started
    end.set()
    first.join()
    assert took < 5
    assert (report.done, report.unfinished, running.outcome) == (0, 1, "nak")
    assert worker.wait(0) == report
