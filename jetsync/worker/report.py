"""Reports of a worker: an outcome for each message, its health, and a summary at the end."""

from __future__ import annotations

import bisect
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetsync._measurement import BOUNDS

if TYPE_CHECKING:
    from jetsync import JetStreamMsg

__all__ = [
    "KINDS",
    "Outcome",
    "Tallies",
    "Tally",
    "WorkerHealth",
    "WorkerReport",
    "WorkerStats",
    "add_counts",
]

_FIRST = BOUNDS[0]

KINDS = ("done", "retried", "dead", "terminated", "released")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one delivery: ``done``, ``retried`` (after ``delay`` seconds), ``dead`` (a
    dead letter was stored), ``terminated`` (given up without one) or ``released`` (handed back).

    ``error`` is what the handler raised, ``seconds`` how long it ran.
    """

    kind: str
    msg: JetStreamMsg
    error: BaseException | None
    delay: float | None
    seconds: float


@dataclass(frozen=True)
class WorkerReport:
    """Counts of outcomes from start to end. ``unfinished``: handlers that were still running when
    the time for draining was over; ``reason``: why the worker ended."""

    done: int
    retried: int
    dead: int
    terminated: int
    released: int
    unfinished: int
    seconds: float
    reason: str


@dataclass(frozen=True)
class WorkerHealth:
    """The health of a worker: ``alive`` while its threads run, ``ready`` while it takes and handles
    messages. ``last_outcome`` is in seconds on the wall clock; ``problems`` are sentences."""

    alive: bool
    ready: bool
    connected: bool
    in_flight: int
    oldest_seconds: float
    last_outcome: float | None
    problems: list[str]


class WorkerStats:
    """Counts since the start, as they were when they were asked for."""

    def __init__(self) -> None:
        self.done = self.retried = self.dead = self.terminated = self.released = 0
        self.last_outcome: float | None = None
        self.handle_seconds: float = 0.0
        self.handled: int = 0
        self.buckets: list[int] = [0] * len(BOUNDS)

    def __repr__(self) -> str:
        return f"WorkerStats({', '.join(f'{kind}={getattr(self, kind)}' for kind in KINDS)})"


def add_counts(total: WorkerStats, more: Mapping[str, Any]) -> None:
    """Add counts of another thread or process, as ``vars`` has them; an empty mapping adds
    nothing."""
    for name in (*KINDS, "handled", "handle_seconds"):
        setattr(total, name, getattr(total, name) + more.get(name, 0))
    last = [at for at in (total.last_outcome, more.get("last_outcome")) if at is not None]
    total.last_outcome = max(last, default=None)
    if buckets := more.get("buckets"):
        total.buckets = [one + other for one, other in zip(total.buckets, buckets, strict=True)]


class Tally:
    """The counts of one thread: the only one that changes them, so they need no lock."""

    __slots__ = ("_counts", "_last", "_quick", "_quick_seconds")

    def __init__(self) -> None:
        self._counts = WorkerStats()
        # Messages that were done in less than the first bound, counted apart: nearly all are.
        self._quick = 0
        self._quick_seconds = 0.0
        self._last: float | None = None  # on the monotonic clock

    def done(self, seconds: float, now: float) -> None:
        """Count a message that is done ``now``, on the monotonic clock."""
        if seconds <= _FIRST:
            self._quick += 1
            self._quick_seconds += seconds
            self._last = now
        else:
            self.count("done", seconds)

    def count(self, kind: str, seconds: float) -> None:
        """Count an outcome."""
        counts = self._counts
        setattr(counts, kind, getattr(counts, kind) + 1)
        self._last = time.monotonic()
        if kind != "released":
            counts.handled += 1
            counts.handle_seconds += seconds
            if (index := bisect.bisect_left(BOUNDS, seconds)) < len(BOUNDS):
                counts.buckets[index] += 1

    def add_to(self, total: WorkerStats) -> None:
        """Add them up. Any thread."""
        add_counts(total, vars(self._counts))
        quick = self._quick
        total.done += quick
        total.handled += quick
        total.buckets[0] += quick
        total.handle_seconds += self._quick_seconds
        if self._last is not None:
            passed = time.monotonic() - self._last
            add_counts(total, {"last_outcome": time.time() - passed})


class Tallies:
    """The counts of threads, each of which counts on its own. Thread-safe."""

    def __init__(self) -> None:
        self._all: list[Tally] = []

    def new(self) -> Tally:
        """Return one for the calling thread."""
        tally = Tally()
        self._all.append(tally)
        return tally

    def total(self) -> WorkerStats:
        """Return the sums."""
        total = WorkerStats()
        for tally in list(self._all):
            tally.add_to(total)
        return total
