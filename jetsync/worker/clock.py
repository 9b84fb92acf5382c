"""A thread for timed work: next tries with a key, and checks of handlers that run long."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from queue import Empty

from jetsync._log import Log
from jetsync._native import NativeQueue
from jetsync._threads import start_thread

__all__ = ["Clock"]

logger: Log = Log("jetsync.worker")

_Entry = tuple[float, int, Callable[[], object]]


class Clock:
    """Runs short functions later, and one every second. ``later`` is for any thread."""

    def __init__(self, every_second: Callable[[], object]) -> None:
        self._every_second = every_second
        self._new: NativeQueue[_Entry | None] = NativeQueue()
        self._order = itertools.count()
        self._thread = start_thread("worker-clock", self._run)

    def later(self, seconds: float, function: Callable[[], object]) -> None:
        """Run a function after so many seconds. Does not block."""
        self._new.put((time.monotonic() + seconds, next(self._order), function))

    def _run(self) -> None:
        schedule: list[_Entry] = []
        tick = time.monotonic() + 1.0
        while True:
            due = min(tick, schedule[0][0]) if schedule else tick
            try:
                entry = self._new.get(timeout=max(0.0, due - time.monotonic()))
            except Empty:
                if time.monotonic() >= tick:
                    tick = time.monotonic() + 1.0
                    self._call(self._every_second)
                while schedule and schedule[0][0] <= time.monotonic():
                    self._call(heapq.heappop(schedule)[2])
                continue
            if entry is None:
                return
            heapq.heappush(schedule, entry)

    @staticmethod
    def _call(function: Callable[[], object]) -> None:
        try:
            function()
        except Exception:
            logger.exception("a timed function of a worker failed")

    def close(self) -> None:
        """End the thread; functions that are not due yet do not run."""
        self._new.put(None)
        self._thread.join()
