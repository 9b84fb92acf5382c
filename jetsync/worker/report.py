"""Reports of a worker: an outcome for each message, its health, and a summary at the end."""

from __future__ import annotations

import bisect
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetsync._measurement import BOUNDS

if TYPE_CHECKING:
    from jetsync import JetStreamMsg

__all__ = ["KINDS", "Outcome", "WorkerHealth", "WorkerReport", "WorkerStats"]

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
    """Counts since the start. The numbers only grow; reading them takes no lock."""

    def __init__(self) -> None:
        self.done = self.retried = self.dead = self.terminated = self.released = 0
        self.last_outcome: float | None = None
        self.handle_seconds: float = 0.0
        self.handled: int = 0
        self.buckets: list[int] = [0] * len(BOUNDS)

    def count(self, kind: str, seconds: float) -> None:
        """Count an outcome. The caller sees to it that one thread at a time does."""
        if kind == "done":
            self.done += 1
        else:
            setattr(self, kind, getattr(self, kind) + 1)
        self.last_outcome = time.time()
        if kind != "released":
            self.handled += 1
            self.handle_seconds += seconds
            if (index := bisect.bisect_left(BOUNDS, seconds)) < len(BOUNDS):
                self.buckets[index] += 1

    def snapshot(self) -> dict[str, object]:
        """Return all of it as plain values, to be added up over processes."""
        return {name: getattr(self, name) for name in vars(self)} | {"buckets": list(self.buckets)}
