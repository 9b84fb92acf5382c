"""Jobs of which some fail and some always do: their handlers, and the log of what was done."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jetsync import JetStreamMsg
from jetsync.worker import Backoff, Outcome, task
from tests.harness.waiting import wait_until

__all__ = ["KEYS", "Line", "Log", "Repeat", "in_order", "is_poison", "side_by_side"]

KEYS = 200
LOG = "UNLOST_LOG"

_failed: set[int] = set()
_files: dict[str, int] = {}


def is_poison(number: int) -> bool:
    """One job of a hundred never succeeds."""
    return number % 100 == 7


def is_failing(number: int) -> bool:
    """One job of five fails at its first try."""
    return number % 5 == 0


def _handle(msg: JetStreamMsg) -> None:
    number = int(msg.data)
    _note("begun", number, msg.metadata.num_delivered, msg.metadata.consumer_seq)
    is_first = msg.metadata.num_delivered == 1 and number not in _failed
    if is_poison(number) or (is_failing(number) and is_first):
        _failed.add(number)
        _note("failed", number)
        raise ValueError(number)
    time.sleep(0.002)  # the work
    _note("done", number)


def _note(what: str, number: int, *delivery: int) -> None:
    """One write to a file that is open to append: lines of all processes are in one order."""
    path = os.environ[LOG]
    if path not in _files:
        _files[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    line = f"{what} {number} {os.getpid()} {time.monotonic_ns()} {' '.join(map(str, delivery))}\n"
    os.write(_files[path], line.encode())


def _note_outcome(outcome: Outcome) -> None:
    if outcome.kind in ("dead", "released"):
        _note(outcome.kind, int(outcome.msg.data))


_OPTIONS = {
    "retry": Backoff(0.02, limit=0.2, tries=4),
    "dead_letter": "dead.{subject}",
    "on_outcome": _note_outcome,
}


@task(
    stream="UNLOST",
    consumer="unlost",
    processes=3,
    threads=4,
    prefetch=64,
    restart_backoff=Backoff(0.1, limit=0.5, tries=None),
    **_OPTIONS,
)
def side_by_side(msg: JetStreamMsg) -> None:
    """For several processes, in any order."""
    _handle(msg)


@task(stream="UNLOST", consumer="unlost", key="subject:2", threads=8, prefetch=256, **_OPTIONS)
def in_order(msg: JetStreamMsg) -> None:
    """The same, for one process that keeps the order of each key."""
    _handle(msg)


@dataclass(frozen=True)
class Line:
    """What was done with a job, by which process, and when (on the monotonic clock)."""

    what: str
    number: int
    process: int
    at: float
    delivery: tuple[int, ...] = ()
    """Of a job that has begun: how often the server has delivered it, and the number of this
    delivery among all of the consumer."""


@dataclass(frozen=True)
class Repeat:
    """A job that was done, and then once more: what was logged of both times."""

    begun: Line
    done: Line
    begun_again: Line
    done_again: Line

    def __str__(self) -> str:
        return (
            f"job {self.done.number}: deliveries {self.begun.delivery} of process "
            f"{self.done.process}, done at {self.done.at:.3f}, and {self.begun_again.delivery} of "
            f"process {self.done_again.process}, begun at {self.begun_again.at:.3f}"
        )


class Log:
    """The log of the handlers, read while it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self.lines: list[Line] = []
        self.done: set[int] = set()
        self._read = 0

    def read(self) -> list[Line]:
        """Return all lines that are whole by now."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        for text in whole.decode().splitlines():
            what, number, process, at, *delivery = text.split()
            line = Line(what, int(number), int(process), int(at) / 1e9, tuple(map(int, delivery)))
            self.lines.append(line)
            if what == "done":
                self.done.add(int(number))
        return self.lines

    def wait_for(self, count: int, timeout: float) -> None:
        """Wait until so many jobs are done. Raises AssertionError."""
        wait_until(lambda: len(self.read()) >= count and len(self.done) >= count, timeout=timeout)

    def repeats(self) -> Iterator[Repeat]:
        """For each job that was done more than once: one time, and the next."""
        begun: dict[tuple[int, int], Line] = {}
        seen: dict[int, tuple[Line, Line]] = {}
        for line in self.lines:
            place = line.process, line.number
            if line.what == "begun":
                begun[place] = line
            elif line.what == "done":
                if line.number in seen:
                    yield Repeat(*seen[line.number], begun[place], line)
                seen[line.number] = begun[place], line

    def order_of_keys(self) -> Iterator[tuple[Line, Line]]:
        """For each key the pairs of jobs that were first done one after the other."""
        seen: set[int] = set()
        of_key: dict[int, list[Line]] = {}
        for line in self.lines:
            if line.what == "done" and line.number not in seen:
                seen.add(line.number)
                of_key.setdefault(line.number % KEYS, []).append(line)
        for lines in of_key.values():
            yield from itertools.pairwise(lines)

    def of(self, numbers: set[int]) -> list[Line]:
        """What was logged about these jobs."""
        return [line for line in self.lines if line.number in numbers]

    def beside_each_other(self) -> Iterator[tuple[Line, Line]]:
        """Beginnings of jobs of one key, in one process, of which the first had not ended."""
        running: dict[tuple[int, int], Line] = {}
        for line in self.lines:
            place = line.process, line.number % KEYS
            if line.what in ("done", "failed"):
                running.pop(place, None)
            elif line.what != "begun":
                continue
            elif place in running:
                yield running[place], line
            else:
                running[place] = line
