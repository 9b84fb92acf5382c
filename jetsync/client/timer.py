"""One thread and one heap for the deadlines that nobody is waiting on."""

from __future__ import annotations

import heapq
import itertools
import logging
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


class Timer:
    """Runs short functions at their time, one after another, on its own thread. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._heap: list[tuple[float, int, TimerHandle]] = []
        self._order = itertools.count()
        self._condition = threading.Condition()
        self._closed = False
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; what was scheduled before runs too."""
        self._thread = start_thread(f"timer-{self._name}", self._run)

    def call_later(self, delay: float, function: Callable[[], object]) -> TimerHandle:
        """Run ``function()`` after ``delay`` seconds. Does not block."""
        handle = TimerHandle(function)
        with self._condition:
            heapq.heappush(self._heap, (time.monotonic() + delay, next(self._order), handle))
            self._condition.notify()
        return handle

    def _next_due(self) -> TimerHandle | None:
        """Wait for the next function to run; None when the timer is closed."""
        with self._condition:
            while not self._closed:
                wait = None
                if self._heap:
                    wait = self._heap[0][0] - time.monotonic()
                    if wait <= 0:
                        return heapq.heappop(self._heap)[2]
                self._condition.wait(wait)
        return None

    def _run(self) -> None:
        while (handle := self._next_due()) is not None:
            if handle.cancelled:
                continue
            try:
                handle.function()
            except Exception:
                logger.exception("a timed function failed")

    def close(self, timeout: float) -> None:
        """Stop and join the thread, unless called from it. Blocks up to ``timeout`` seconds."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
