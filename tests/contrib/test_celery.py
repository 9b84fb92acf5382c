"""Celery with real workers: every pool, what applications are made of, and killed processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import celery
import pytest
from celery.exceptions import TaskRevokedError

import jetsync
from jetsync.contrib.celery import KeyValueBackend
from jetsync.server import NatsServer
from tests.contrib import app as tasks
from tests.harness.pages import python_blocks
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

ROOT = Path(__file__).parents[2]
LONG = 30.0
"""Seconds for what may have to wait for a busy machine."""

POOLS = ("threads", "gevent")

pytestmark = pytest.mark.xdist_group("celery")


class Place:
    """An application on a virtual host of its own, and its workers."""

    def __init__(self, server: NatsServer, folder: Path) -> None:
        self.name = folder.name
        self.record = folder / "record"
        self.record.touch()
        self.environment = {
            **os.environ,
            "NATS_URL": server.url,
            "VHOST": self.name,
            "RECORD": str(self.record),
            "C_FORCE_ROOT": "1",
            # The installed package, and these tests.
            "PYTHONPATH": os.pathsep.join((str(Path(jetsync.__file__).parents[1]), str(ROOT))),
        }
        self.app = tasks.make_app(server.url, self.name)
        self.workers: list[subprocess.Popen[bytes]] = []
        with self.app.connection_for_write() as connection:
            connection.connect()
            self.broker = connection.transport.broker

    def worker(
        self, pool: str, *arguments: str, app: str = "tests.contrib.app", **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a worker; it is ready when it takes its first task."""
        options = ["-P", pool, "-c", "2", "-l", "WARNING", "-n", f"w{len(self.workers)}@h"]
        started = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", app, "worker", *options, *arguments],
            cwd=self.record.parent,
            env={**self.environment, **environment},
            start_new_session=True,
        )
        self.workers.append(started)
        return started

    def call(self, name: str, *args: Any, **options: Any) -> celery.result.AsyncResult:
        """Send a task of tests/contrib/app.py."""
        return self.task(name, *args).apply_async(**options)

    def task(self, name: str, *args: Any) -> celery.Signature:
        return self.app.signature(f"tests.contrib.app.{name}", args=args)

    def lines(self, begin: str) -> list[str]:
        return [line for line in self.record.read_text().splitlines() if line.startswith(begin)]

    def close(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        self.app.close()
        self.broker.nc.close()
        assert isinstance(self.app.backend, KeyValueBackend)
        jetsync.shared_connection(**self.app.backend.fields).close()


@pytest.fixture
def place(server: NatsServer, tmp_path: Path) -> Iterator[Place]:
    made = Place(server, tmp_path)
    yield made
    made.close()


def test_what_celery_applications_are_made_of(place):
    """On processes: results, retries, groups, chords, chains, delays, expiry, remote control."""
    expired, over = place.call("record", "late", expires=0.2), time.time() + 0.2
    wait_until(lambda: time.time() > over)
    place.worker("prefork")
    add, total = place.task("add", 1, 2), place.task("total")
    assert add.delay().get(timeout=LONG) == 3
    sums = celery.group(place.task("add", n, n) for n in range(5))
    results = {
        "shaky": place.call("shaky", 2),
        "group": sums.apply_async(),
        "chord": celery.chord(sums, total).apply_async(),
        "chain": celery.chain(add, place.task("add", 4)).apply_async(),
    }
    got = {name: result.get(timeout=LONG) for name, result in results.items()}
    assert got == {"shaky": 2, "group": [0, 2, 4, 6, 8], "chord": 20, "chain": 7}
    with pytest.raises(TaskRevokedError):
        expired.get(timeout=LONG)
    assert (expired.status, place.lines("late")) == ("REVOKED", [])
    # Two tasks that are delayed: neither is with a worker, and the revoked one never runs.
    due = time.time() + 1.0
    delayed, revoked = place.call("started", countdown=1.0), place.call("record", "no", countdown=1)
    control = place.app.control
    assert control.inspect(timeout=LONG, limit=1).reserved() == {"w0@h": []}
    assert control.inspect(timeout=LONG, limit=1).scheduled() == {"w0@h": []}
    control.revoke(revoked.id, reply=True, timeout=LONG, limit=1)
    with pytest.raises(TaskRevokedError):
        revoked.get(timeout=LONG)
    assert delayed.get(timeout=LONG) >= due
    assert place.lines("no") == []


def test_pools_of_threads_and_of_greenlets_run_tasks_and_answer(place):
    """Each reads a queue of its own, so each has to work; tasks send tasks from where they run."""
    workers = [place.worker(pool, "-Q", pool) for pool in POOLS]
    results = [place.call("add", n, n, queue=pool) for pool in POOLS for n in range(5)]
    assert [result.get(timeout=LONG) for result in results] == [2 * n for n in range(5)] * 2
    retried = [place.call("shaky", 1, queue=pool) for pool in POOLS]
    assert [result.get(timeout=LONG) for result in retried] == [1, 1]
    answers = place.app.control.ping(timeout=LONG, limit=2)
    assert sorted(name for answer in answers for name in answer) == ["w0@h", "w1@h"]
    workers[0].send_signal(signal.SIGTERM)
    assert workers[0].wait(LONG) == 0


def test_a_receiver_of_events_sees_workers_and_tasks(place):
    """What ``celery events`` and monitors such as Flower are made of."""
    place.worker("threads", "-E")
    state = place.app.events.State()
    with place.app.connection_for_read() as connection:
        receiver = place.app.events.Receiver(connection, handlers={"*": state.event})
        with receiver.consumer_context() as (reading, _, _):  # its queue is there from now on
            results = [place.call("add", n, n) for n in range(5)]
            ends_at = time.monotonic() + LONG
            while time.monotonic() < ends_at and _succeeded(state) < 5:
                with contextlib.suppress(TimeoutError):
                    reading.drain_events(timeout=0.2)
    assert [result.get(timeout=LONG) for result in results] == [2 * n for n in range(5)]
    assert {id for id, task in state.tasks_by_type("tests.contrib.app.add")} == {
        result.id for result in results
    }
    assert _succeeded(state) == 5
    assert list(state.workers) == ["w0@h"]


def _succeeded(state: Any) -> int:
    return sum(task.state == "SUCCESS" for task in state.tasks.values())


def test_the_example_of_the_guide_runs(place, tmp_path):
    """As it is printed, on a worker in one thread."""
    application, caller = python_blocks("docs/guide/celery.md")[:2]
    url = f"{place.environment['NATS_URL']}"
    folder = tmp_path / "example"
    folder.mkdir()
    (folder / "shop.py").write_text(application.replace("nats://127.0.0.1:4222", url))
    (folder / "call.py").write_text(caller)
    place.environment["PYTHONPATH"] = str(folder)
    place.worker("solo", app="shop")
    called = subprocess.run(
        [sys.executable, "call.py"],
        cwd=folder,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (called.stdout.splitlines(), called.returncode) == (["25.0", "[5.0, 10.0]"], 0)


def test_every_task_ends_although_workers_are_killed(place):
    """A child kills itself; a whole worker is killed while it works, and another one goes on."""
    first = place.worker("prefork", ACK_WAIT="1.5")
    assert place.call("die_once", "child").get(timeout=LONG) == "child"
    assert place.lines("died") == ["died child"]
    count = scaled(6, 200)
    results = [place.call("fragile", f"job{n}", 0.2) for n in range(count)]
    wait_until(lambda: len(place.lines("begin")) >= 2, timeout=LONG)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert len(place.lines("end")) < count
    place.worker("threads", ACK_WAIT="1.5")
    assert [r.get(timeout=LONG) for r in results] == [f"job{n}" for n in range(count)]
    wait_until(lambda: place.broker.size("celery") == 0, timeout=LONG)
