"""Signals end workers that run in the foreground, from their start on and all at the same time."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from jetsync import JetStreamMsg
from jetsync.worker import Worker, run
from jetsync.worker.running import run_all
from tests.harness.waiting import wait_until
from tests.harness.watchdog import run_code
from tests.worker.conftest import Place
from tests.worker.sources import MadeSource

ENDS_BESIDE_WORKERS = """
import sys, threading, time, jetsync
from jetsync.worker import Worker
nc = jetsync.connect(sys.argv[1])
stream = nc.jetstream().stream(sys.argv[2])
begun = threading.Event()
def work(msg):
    begun.set()
    while not nc.is_closed:
        time.sleep(0.01)  # until the exit has closed it
for name in ("waits", "works"):
    consumer = stream.create_consumer(name=name, filter_subject=sys.argv[2] + "." + name)
    Worker(consumer, work).start()
nc.jetstream().publish(sys.argv[2] + ".works")
begun.wait(20)
sys.exit(7)
"""

ENDS_BESIDE_PROCESSES = """
import os, sys, time, jetsync
from jetsync.worker import Worker, WorkSource
from tests.worker.jobs import handle
if __name__ == "__main__":
    source = WorkSource(sys.argv[2], "w", options=jetsync.ConnectOptions(servers=sys.argv[1]))
    worker = Worker(source, handle, processes=2, threads=1, drain_timeout=3600).start()
    while worker.health().in_flight < int(sys.argv[3]):
        time.sleep(0.01)  # between two looks
    sys.exit(7)
"""


def test_a_signal_while_it_starts_ends_it(monkeypatch: pytest.MonkeyPatch):
    def connect(_source: object, _options: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)  # until its signal
        raise AssertionError("the signal has not ended it")

    monkeypatch.setattr("jetsync.worker.engine.Opened", connect)
    report = run(MadeSource(), print)
    assert (report.reason, report.done) == ("SIGTERM", 0)


def test_several_workers_drain_at_the_same_time(monkeypatch: pytest.MonkeyPatch):
    """The handlers of each go on until all of them have handed back what has not begun."""
    monkeypatch.setattr("jetsync.worker.engine.Opened", lambda source, _options: source)
    sources = [MadeSource(), MadeSource()]
    both = threading.Barrier(3)
    waiting = []

    def handle(msg: JetStreamMsg) -> None:
        both.wait(10)
        wait_until(lambda: [msg.outcome for msg in waiting] == ["nak", "nak"], timeout=10)

    def ask() -> None:
        both.wait(10)
        wait_until(lambda: all(source.taken == 2 for source in sources))
        os.kill(os.getpid(), signal.SIGTERM)

    for source in sources:
        source.deliver(1, 1)
        waiting.append(source.deliver(2, 2))
    asker = threading.Thread(target=ask)
    asker.start()
    workers = [Worker(source, handle, threads=1, drain_timeout=15) for source in sources]
    reports = run_all(workers)
    asker.join()
    assert [(one.done, one.released, one.unfinished) for one in reports] == [(1, 1, 0)] * 2
    assert {one.reason for one in reports} == {"SIGTERM"}


def test_a_program_that_ends_beside_its_workers_says_nothing_of_its_own(place: Place):
    """One worker waits for messages, one has a handler that runs (P8)."""
    done = run_code(ENDS_BESIDE_WORKERS, place.url, place.name, limit=60)
    assert (done.code, done.errors) == (7, "")


@pytest.mark.parametrize("running", [0, 1])
def test_a_program_that_ends_beside_its_processes_is_not_held_up_by_them(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: int
):
    """Nor by their handlers, which take an hour (P8)."""
    monkeypatch.setenv("JOBS_LOG", str(tmp_path / "log"))
    consumer = place.consumer()
    for _ in range(running):
        place.js.publish(f"{place.name}.0", b"3600")
    done = run_code(ENDS_BESIDE_PROCESSES, place.url, place.name, str(running), limit=60)
    assert (done.code, done.errors) == (7, "")
    wait_until(lambda: consumer.info().num_waiting == 0, timeout=20)
