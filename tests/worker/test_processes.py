"""Workers in processes of their own: signals, crashes, kills, the parent's death, health."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import jetsync
from jetsync.server.ports import free_port
from jetsync.worker import Backoff, Worker, WorkSource
from tests.harness.waiting import wait_until
from tests.worker import jobs
from tests.worker.conftest import Place

ROOT = Path(__file__).parents[2]


class Command:
    """``python -m jetsync.worker`` on a place, with what it has done."""

    def __init__(self, place: Place, log: Path, *arguments: str) -> None:
        self.log = log
        log.touch()
        environment = {**os.environ, "JOBS_LOG": str(log), "NATS_URL": place.url}
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jetsync.worker", "tests.worker.jobs:handle", "--stream"),
                *(place.name, "--consumer", "w", "--no-context", *arguments),
            ],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def begun(self) -> list[int]:
        """The stream sequences of the jobs that began, in that order."""
        return [int(line) for line in self.log.read_text().split()]

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


@pytest.fixture
def commands(place: Place, log: Path) -> Iterator[list[Command]]:
    started: list[Command] = []
    yield started
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


def test_sigterm_lets_handlers_finish_and_hands_back_the_rest(place, log, commands):
    for _ in range(6):
        place.js.publish(f"{place.name}.a", b"1.0")
    consumer = place.consumer(ack_wait=30)
    one = Command(place, log, "--threads", "2")
    commands.append(one)
    wait_until(lambda: len(one.begun) == 2, timeout=20)
    asked = time.monotonic()
    one.send(signal.SIGTERM)
    code, err = one.end()
    assert code == 0
    assert time.monotonic() - asked < 6
    assert "2 done" in err
    assert "2 released" in err
    assert "0 unfinished" in err
    info = consumer.info()
    assert info.ack_floor.stream_seq == 2
    assert len(consumer.fetch(4, timeout=2)) == 4  # at once: they were handed back


def test_a_drain_that_takes_too_long_hands_back_what_runs(place, log, commands):
    place.js.publish(f"{place.name}.a", b"30")
    consumer = place.consumer(ack_wait=30)
    one = Command(place, log, "--drain-timeout", "0.5")
    commands.append(one)
    wait_until(lambda: one.begun, timeout=60)
    one.send(signal.SIGINT)
    code, err = one.end()
    assert code == 1
    assert "1 unfinished" in err
    again = consumer.fetch(1, timeout=2)
    assert again[0].metadata.num_delivered == 2


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_second_ctrl_c_ends_it_at_once(place, log, commands, processes):
    place.js.publish(f"{place.name}.a", b"30")
    place.consumer()
    one = Command(place, log, "--processes", processes)
    commands.append(one)
    wait_until(lambda: one.begun, timeout=60)
    children = _children(one.process.pid)
    one.send(signal.SIGINT)
    one.send(signal.SIGUSR1)
    assert one.process.stderr is not None
    while "thread 0x" not in one.process.stderr.readline().lower():
        assert one.process.poll() is None
    one.send(signal.SIGINT)  # after the traceback: the first one has been handled by then
    code, _ = one.end()
    assert code == 130
    assert not any(_lives(child) for child in children)


def test_a_message_that_kills_its_process_becomes_a_dead_letter(place, log, monkeypatch):
    monkeypatch.setenv("JOBS_LOG", str(log))
    log.touch()
    for number in range(8):
        place.js.publish(f"{place.name}.a", b"die" if number == 3 else b"0")
    consumer = place.consumer(ack_wait=1.0)
    source = WorkSource(place.name, "w", options=jetsync.ConnectOptions(servers=place.url))
    with Worker(
        source,
        jobs.handle,
        processes=2,
        threads=1,
        prefetch=1,
        dead_letter=place.dead,
        crash_tries=2,
        retry=Backoff(0.1, tries=1),
        restart_backoff=Backoff(0.1, limit=0.2, tries=None),
    ):
        wait_until(place.letters, timeout=30)
        wait_until(lambda: consumer.info().num_ack_pending == 0, timeout=20)
    (letter,) = place.letters()
    assert letter.data == b"die"
    assert letter.headers is not None
    assert letter.headers["Dead-Letter-Reason"] == "crashed"
    assert letter.headers["Dead-Letter-Deliveries"] == "3"
    assert set(map(int, log.read_text().split())) == {1, 2, 3, 5, 6, 7, 8}


def test_killed_processes_come_back_and_children_die_with_their_parent(place, log, commands):
    for _ in range(40):
        place.js.publish(f"{place.name}.a", b"0.05")
    consumer = place.consumer(ack_wait=1.0)
    port = free_port()
    one = Command(place, log, "--processes", "2", "--threads", "1", "--http", f"127.0.0.1:{port}")
    commands.append(one)
    wait_until(lambda: _is_ready(port), timeout=30)
    children = _children(one.process.pid)
    assert len(children) == 2
    os.kill(children[0], signal.SIGKILL)
    wait_until(lambda: "it does not run" in _ask(port, "readyz")[1], timeout=10)
    wait_until(lambda: _ask(port, "readyz")[0] == 200, timeout=20)
    wait_until(lambda: consumer.info().ack_floor.stream_seq == 40, timeout=30)
    # A process tells its counts four times a second: those of its last moments died with it.
    wait_until(lambda: 20 <= _done(port) <= 42, timeout=10)
    children = _children(one.process.pid)
    one.process.kill()
    wait_until(lambda: not any(_lives(child) for child in children), timeout=15)
    repeats = collections.Counter(one.begun)
    assert set(repeats) == set(range(1, 41))
    assert sum(repeats.values()) <= 42  # what the killed one held


def test_health_is_answered_over_http(place):
    port = free_port()
    with Worker(place.consumer(), lambda msg: None, http=f"127.0.0.1:{port}"):
        other = Worker(place.consumer(), lambda msg: None, http=f"127.0.0.1:{port}")
        with pytest.raises(jetsync.ConfigError, match=f"{port}.*in use"):
            other.start()
        with pytest.raises(jetsync.ConfigError, match="not started"):
            other.wait()
        assert _ask(port, "livez")[0] == 200
        code, text = _ask(port, "readyz")
        assert (code, json.loads(text)["problems"]) == (200, [])
        assert _ask(port, "other")[0] == 404
    with pytest.raises(OSError):
        _ask(port, "livez")


def _is_ready(port: int) -> bool:
    try:
        return _ask(port, "readyz")[0] == 200
    except OSError:  # it does not listen yet
        return False


def _done(port: int) -> int:
    lines = _ask(port, "metrics")[1].splitlines()
    counts = dict(line.rsplit(" ", 1) for line in lines if line[0] != "#")
    return next(
        int(count)
        for name, count in counts.items()
        if name.startswith("jetsync_worker_messages_total{stream=") and 'outcome="done"' in name
    )


def _ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def _children(parent: int) -> list[int]:
    """The processes of a parent that do its work, without the helpers of multiprocessing."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [pid for pid in map(int, found) if b"spawn_main" in _command(pid)]


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
