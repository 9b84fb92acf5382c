"""Timer: one thread that runs things later."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable

from jetsync.client.runner import start_thread

__all__ = ["Timer", "TimerHandle"]

logger = logging.getLogger("jetsync")


class TimerHandle:
    """A scheduled call; ``cancel()`` keeps it from running. Thread-safe."""

    __slots__ = ("cancelled", "function")

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self.cancelled = False

    def cancel(self) -> None:
        """Do not run it any more. Does not wait for one that is running."""
        self.cancelled = True


_Entry = tuple[float, int, TimerHandle]


class Timer:
    """Runs short functions at their time, one after another, on its own thread. Thread-safe.

    Only the thread knows the schedule; what is new reaches it by a queue whose ``put`` may be
    called in the middle of anything, in signal handlers and finalizers too.
    """

    def __init__(self, name: str) -> None:
        self._new: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._order = itertools.count()
        self._closed = False
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; what was scheduled before runs too."""
        self._thread = start_thread(f"timer-{self._name}", self._run)

    def call_later(self, delay: float, function: Callable[[], object]) -> TimerHandle:
        """Run ``function()`` after ``delay`` seconds. Does not block."""
        handle = TimerHandle(function)
        self._new.put((time.monotonic() + delay, next(self._order), handle))
        return handle

    def _run(self) -> None:
        schedule: list[_Entry] = []
        while not self._closed:
            wait = None
            if schedule:
                wait = min(max(0.0, schedule[0][0] - time.monotonic()), threading.TIMEOUT_MAX)
            try:
                entry = self._new.get(timeout=wait) if wait != 0 else self._new.get_nowait()
                if entry is not None:
                    heapq.heappush(schedule, entry)
                continue
            except queue.Empty:
                pass
            # Nothing new, and the first one is due.
            if schedule[0][0] <= time.monotonic():
                self._call(heapq.heappop(schedule)[2])

    @staticmethod
    def _call(handle: TimerHandle) -> None:
        if not handle.cancelled:
            try:
                handle.function()
            except Exception:
                logger.exception("a timed function failed")

    def close(self, timeout: float) -> None:
        """Stop and join the thread, unless called from it. Blocks up to ``timeout`` seconds."""
        self._closed = True
        self._new.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
