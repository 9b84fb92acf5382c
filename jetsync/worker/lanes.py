"""Jobs, and lanes that keep the messages of a key in order."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from jetsync._locks import lock

if TYPE_CHECKING:
    from jetsync import JetStreamMsg
    from jetsync.worker.report import Tally

__all__ = ["Job", "Lanes"]


class Job:
    """One message that is held: waiting, running, or (with a key) waiting for its next try."""

    tally: Tally  # of the thread that has it
    # Defaults in the class: most jobs are made, run and dropped without setting them.
    key: Hashable = None
    tries_here: int = 0
    given: JetStreamMsg | None = None  # what its handler got
    came_again: bool = False  # its handler goes on and has refused it already
    begun: float = 0.0
    verdict: tuple[str, BaseException | None, int] | None = None  # reason, tries
    is_stuck: bool = False
    is_over: bool = False

    def __init__(self, msg: JetStreamMsg, deliveries: int, seq: int, stamp: int) -> None:
        self.msg: JetStreamMsg = msg
        self.deliveries: int = deliveries
        self.seq: int = seq
        self.stamp: int = stamp

    def __lt__(self, other: Job) -> bool:
        return self.seq < other.seq


class Lanes:
    """For each key the jobs behind the one that runs, in stream order. Thread-safe."""

    def __init__(self, start: Callable[[Job], object]) -> None:
        self._start = start
        self._lock = lock("worker/lanes.py _lock")
        self._lanes: dict[Hashable, list[Job]] = {}

    def add(self, job: Job) -> None:
        """Start a job, or let it wait for those of its key."""
        with self._lock:
            lane = self._lanes.get(job.key)
            if lane is not None:
                bisect.insort(lane, job)
                return
            self._lanes[job.key] = []
        self._start(job)

    def over(self, job: Job) -> None:
        """A job has ended: start the next one of its key."""
        with self._lock:
            lane = self._lanes[job.key]
            if not lane:
                del self._lanes[job.key]
                return
            following = lane.pop(0)
        self._start(following)

    def clear(self) -> None:
        """Forget the jobs that wait."""
        with self._lock:
            for lane in self._lanes.values():
                lane.clear()

    def __len__(self) -> int:
        return len(self._lanes)
