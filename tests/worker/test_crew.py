"""Threads of a worker: quick handlers are run by one thread, others by as many as there are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import jetsync
from jetsync.jetstream.pull.messages import Credit
from jetsync.testing import wait_until
from jetsync.worker import Backoff, Worker
from jetsync.worker.crew import Crew
from tests.worker.sources import MadeSource

LONG = 20.0


class Resting:
    """Threads of a crew that rest, and how many of them were woken."""

    def __init__(self, crew: Crew, size: int) -> None:
        self.woken = 0
        self._crew = crew
        self._threads = [threading.Thread(target=self._rest) for _ in range(size)]
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(crew._resting) == size)

    def _rest(self) -> None:
        self._crew.rest(self._crew.gate())
        self.woken += 1

    def end(self) -> None:
        self._crew.end()
        for thread in self._threads:
            thread.join(LONG)


@pytest.fixture
def crew() -> Crew:
    return Crew(lambda: True, lambda: False)


def resting(crew: Crew, size: int) -> Resting:
    crew._is_left = lambda: False
    threads = Resting(crew, size)
    crew._is_left = lambda: True
    return threads


def test_a_thread_that_begins_a_handler_wakes_no_other_one_while_one_suffices(crew: Crew):
    threads = resting(crew, 3)
    for _ in range(100):
        crew.begin()
    assert len(crew._resting) == 3
    threads.end()


def test_each_thread_that_begins_a_handler_wakes_one_more_while_all_are_to_run(crew: Crew):
    threads = resting(crew, 3)
    for _ in range(4):
        crew.pace.stuck(1.0)
    for left in (2, 1, 0, 0):
        crew.begin()
        assert len(crew._resting) == left
    threads.end()
    assert threads.woken == 3


def test_a_thread_does_not_rest_when_something_is_left_to_do(crew: Crew):
    crew.rest(crew.gate())
    assert not crew._resting


def test_no_thread_rests_after_the_end(crew: Crew):
    crew._is_left = lambda: False
    crew.end()
    crew.rest(crew.gate())
    crew.step_back(crew.gate())
    assert not crew._resting


def test_handlers_that_wait_are_run_by_all_threads(js, stream):
    """None of them could go on with one thread less; the first ones are not known to be long."""
    consumer = js.create_consumer(stream.name, durable_name="all")
    for n in range(16):
        js.publish("all.x", str(n).encode())
    together = threading.Barrier(8)
    with Worker(consumer, lambda msg: together.wait(LONG) and None, threads=8) as worker:
        wait_until(lambda: worker.stats.done == 16, timeout=LONG)
    assert not together.broken


@pytest.fixture
def stream(js) -> Iterator[jetsync.Stream]:
    yield js.create_stream(name="ALL", subjects=["all.*"], storage="memory")
    js.delete_stream("ALL")


def test_every_job_is_done_when_threads_rest_and_wake_all_the_time(js, stream):
    """Handlers that are quick, and others that are not, in turns."""
    consumer = js.create_consumer(stream.name, durable_name="turns")
    js.publish_many((f"all.{n % 7}", str(n).encode()) for n in range(3000))
    pause = threading.Event()

    def handle(msg: jetsync.JetStreamMsg) -> None:
        number = int(msg.data)
        if number % 100 > 90:
            pause.wait(0.001)

    with Worker(consumer, handle, threads=4) as worker:
        wait_until(lambda: worker.stats.done == 3000, timeout=LONG)
        wait_until(lambda: consumer.info().num_ack_pending == 0)
    assert worker.wait().done == 3000


def test_an_acknowledgement_does_not_wait_for_the_handler_behind_it(js, stream):
    consumer = js.create_consumer(stream.name, durable_name="behind")
    go_on = threading.Event()
    for n in range(4):
        js.publish("all.x", b"quick" if n < 3 else b"long")

    def handle(msg: jetsync.JetStreamMsg) -> None:
        if msg.data == b"long":
            go_on.wait(LONG)

    with Worker(consumer, handle, threads=1, prefetch=4) as worker:
        wait_until(lambda: worker.stats.done == 3)
        wait_until(lambda: consumer.info().num_ack_pending == 1, timeout=LONG)
        assert worker.health().in_flight == 1
        go_on.set()
        wait_until(lambda: worker.stats.done == 4)


def test_a_worker_that_stops_deals_with_what_waits_behind_a_long_handler(made_source: MadeSource):
    others_are_done = threading.Event()
    short_take = made_source.take
    workers: list[Worker] = []

    def take(seconds: float) -> list[jetsync.JetStreamMsg]:
        found = short_take(seconds)
        return found + [msg for _ in range(3) for msg in short_take(1.0)] if found else found

    def handle(msg: jetsync.JetStreamMsg) -> None:
        if msg.seq == 1:
            workers[0].stop()
            assert others_are_done.wait(LONG)
        elif msg.seq == 4:
            others_are_done.set()

    made_source.take = take  # type: ignore[method-assign]
    worker = Worker(None, handle, threads=2, prefetch=4)
    workers.append(worker)
    worker.start()
    wait_until(lambda: worker._engine._crew._resting)  # type: ignore[union-attr]
    for seq in (1, 2, 3, 4):
        made_source.deliver(seq, seq)
    assert worker.wait(2 * LONG).done == 4
    assert others_are_done.is_set()


def test_messages_are_taken_and_kept_alive_while_every_thread_is_busy(js, stream):
    """The second one waits for longer than its ack_wait, and is delivered once."""
    consumer = js.create_consumer(stream.name, durable_name="busy", ack_wait=0.5)
    go_on = threading.Event()
    begun = threading.Event()

    def handle(msg: jetsync.JetStreamMsg) -> None:
        begun.set()
        go_on.wait(LONG)

    with Worker(consumer, handle, threads=1, prefetch=2) as worker:
        js.publish("all.x", b"1")
        assert begun.wait(LONG)
        js.publish("all.x", b"2")
        wait_until(lambda: consumer.info().num_ack_pending == 2)
        time.sleep(1.2)  # more than twice ack_wait
        info = consumer.info()
        assert (info.num_redelivered, info.delivered.consumer_seq) == (0, 2)
        go_on.set()
        wait_until(lambda: worker.stats.done == 2)


def test_the_next_try_of_a_key_does_not_wait_for_a_message(made_source: MadeSource):
    """One thread waits for messages when the time of the try has come, the other one is busy."""
    go_on, tries = threading.Event(), []
    interrupted, is_busy = threading.Event(), threading.Event()
    short_take = made_source.take

    def take(seconds: float) -> list[jetsync.JetStreamMsg]:
        found = short_take(seconds)
        while is_busy.is_set() and not found and len(tries) < 2 and not interrupted.wait(0.05):
            pass
        return found

    made_source.take = take  # type: ignore[method-assign]
    made_source.interrupt = interrupted.set  # type: ignore[method-assign]

    def handle(msg: jetsync.JetStreamMsg) -> None:
        if msg.metadata.stream_seq == 1:
            tries.append(msg)
            if len(tries) == 1:
                raise ValueError("once")
        else:
            is_busy.set()
            assert go_on.wait(LONG)

    with Worker(
        None,
        handle,
        threads=2,
        key=lambda msg: msg.metadata.stream_seq,
        retry=Backoff(0.3, jitter=0),
    ) as worker:
        made_source.deliver(1, 1)
        wait_until(lambda: len(tries) == 1)
        made_source.deliver(2, 2)
        wait_until(lambda: len(tries) == 2)
        go_on.set()
        wait_until(lambda: worker.stats.done == 2)


def test_an_interrupt_ends_the_wait_for_a_message(js, stream):
    consumer = js.create_consumer(stream.name, durable_name="none")
    with consumer.messages() as messages:
        threading.Timer(0.1, Credit(messages).interrupt).start()
        assert len(next(messages.batches(timeout=LONG))) == 0
        js.publish("all.x", b"1")
        assert len(next(messages.batches(timeout=LONG))) == 1
