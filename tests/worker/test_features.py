"""Options of a worker one by one, and the whole of it on older servers."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import jetsync
from jetsync.worker import Backoff, Worker, WorkSource, replay
from tests.harness.older import OLDER_VERSIONS, older_server
from tests.harness.waiting import wait_until
from tests.worker import jobs
from tests.worker.conftest import Place

ROOT = Path(__file__).parents[2]
LONG = 30.0


def test_with_ack_sync_a_job_is_done_when_the_server_has_confirmed_it(place: Place):
    """The server knows of each one when it is counted, and of the last one before ``drain``."""
    place.fill(50)
    consumer = place.consumer()
    known: list[int] = []

    def look(outcome: jetsync.worker.Outcome) -> None:
        known.append(consumer.info().num_ack_pending)

    with Worker(
        consumer, lambda msg: None, threads=1, prefetch=1, ack_sync=True, on_outcome=look
    ) as worker:
        wait_until(lambda: worker.stats.done == 50, timeout=LONG)
    # Not counted as pending any more, but for the next message, which may have come meanwhile.
    assert known == [0] * 50
    assert consumer.info().ack_floor.stream_seq == 50


def test_setup_comes_before_the_first_job_and_teardown_after_the_last(place: Place):
    place.fill(20)
    said: list[str] = []
    slow = threading.Event()

    def handle(msg: jetsync.JetStreamMsg) -> None:
        slow.wait(0.01)
        said.append("job")

    with Worker(
        place.consumer(),
        handle,
        setup=lambda: said.append("setup"),
        teardown=lambda: said.append("teardown"),
    ) as worker:
        wait_until(lambda: said.count("job") >= 3, timeout=LONG)
        report = worker.drain()
    assert said == ["setup", *["job"] * report.done, "teardown"]


def test_a_setup_that_fails_is_raised_by_start_and_nothing_is_taken(place: Place):
    place.fill(1)
    consumer = place.consumer()

    def fail() -> None:
        raise LookupError("no model")

    with pytest.raises(LookupError, match="no model"):
        Worker(consumer, print, setup=fail).start()
    assert consumer.info().num_pending == 1


def test_each_process_has_its_setup_and_its_teardown(place: Place, tmp_path: Path, monkeypatch):
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv("JOBS_LOG", str(log))
    for _ in range(10):
        place.js.publish(f"{place.name}.a", b"0")
    place.consumer()
    source = WorkSource(place.name, "w", options=jetsync.ConnectOptions(servers=place.url))
    with Worker(
        source, jobs.handle, processes=2, setup=jobs.set_up, teardown=jobs.tear_down
    ) as worker:
        wait_until(lambda: worker.stats.done == 10, timeout=LONG)
        worker.drain()
    lines = log.read_text().split()
    assert (lines.count("setup"), lines.count("teardown")) == (2, 2)


def test_dead_letters_are_replayed_from_the_command_line(place: Place):
    place.fill(3, keys=3)
    with Worker(
        place.consumer(), lambda msg: 1 / 0, dead_letter=place.dead, retry=Backoff(tries=1)
    ) as worker:
        wait_until(lambda: worker.stats.dead == 3, timeout=LONG)
    command = [sys.executable, "-m", "jetsync", "worker", "replay", f"DEAD-{place.name}"]
    done = subprocess.run(
        [*command, "--subject", f"dead.{place.name}.*.1", "--no-context"],
        env={**os.environ, "NATS_URL": place.url},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1" in done.stdout
    assert [letter.subject for letter in place.letters_left()] == [
        f"dead.{place.name}.{place.name}.{number}" for number in (0, 2)
    ]
    with place.consumer().messages() as messages:
        again = messages.next(LONG)
        assert (again.subject, again.data) == (f"{place.name}.1", b"1")


@pytest.mark.parametrize("version", OLDER_VERSIONS)
def test_a_worker_does_all_of_its_work_on_older_servers(version: str):
    """Keys in order, tries again, dead letters, a drain that hands back, replay."""
    with older_server(version) as server, jetsync.connect(server.url) as nc:
        place = Place(nc, nc.jetstream(), server.url, "OLD")
        for name, subject in (("OLD", "OLD.>"), ("DEAD-OLD", "dead.>")):
            place.js.create_stream(name=name, subjects=[subject], storage="memory")
        place.fill(300, keys=10)
        consumer = place.consumer()
        tries: collections.Counter[int] = collections.Counter()
        done: list[int] = []

        def handle(msg: jetsync.JetStreamMsg) -> None:
            number = int(msg.data)
            tries[number] += 1
            if number % 100 == 7 or (number % 5 == 0 and tries[number] == 1):
                raise ValueError(number)
            done.append(number)

        with Worker(
            consumer,
            handle,
            key="subject:2",
            dead_letter=place.dead,
            retry=Backoff(0.01, limit=0.05, tries=3),
        ) as worker:
            wait_until(lambda: worker.stats.done + worker.stats.dead == 300, timeout=LONG)
        for key in range(10):
            of_key = [number for number in done if number % 10 == key]
            assert of_key == sorted(of_key)
        assert sorted(done) == sorted(set(range(300)) - {7, 107, 207})
        assert sorted(int(letter.data) for letter in place.letters()) == [7, 107, 207]
        wait_until(lambda: consumer.info().num_ack_pending == 0, timeout=LONG)
        assert replay(place.js, "DEAD-OLD") == 3
        go_on, running = threading.Event(), threading.Semaphore(0)

        def wait(msg: jetsync.JetStreamMsg) -> None:
            running.release()
            go_on.wait(LONG)

        with Worker(consumer, wait, threads=1, prefetch=3) as worker:
            assert running.acquire(timeout=LONG)
            wait_until(lambda: consumer.info().num_ack_pending == 3, timeout=LONG)
            threading.Timer(0.2, go_on.set).start()
            report = worker.drain()
        assert (report.done, report.released) == (1, 2)
        assert len(consumer.fetch(2, timeout=5)) == 2
