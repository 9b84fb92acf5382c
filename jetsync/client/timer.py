"""Timer: one thread that runs functions after a delay."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty
from typing import Any

from jetsync._latch import Latch
from jetsync._log import Log
from jetsync._native import NativeQueue
from jetsync._threads import start_thread

__all__ = ["Guard", "Timer", "TimerHandle"]

logger: Log = Log("jetsync.connection")

_FEW = 64
"""Entries of a schedule that is not worth sweeping."""


class TimerHandle:
    """A scheduled call; ``cancel()`` keeps it from running. Thread-safe."""

    __slots__ = ("cancelled", "function")

    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] = function
        self.cancelled: bool = False

    def cancel(self) -> None:
        """Do not run it any more. Does not wait for one that is running."""
        self.cancelled = True
        self.function = _nothing  # what it holds is free now, not only when it is due


def _nothing() -> None:
    """In the place of a function that is not to run."""


_Entry = tuple[float, int, TimerHandle]


class Guard(weakref.ref[Any]):
    """Runs a function on the timer thread when an object is dropped, for as long as it is held.

    Dropping the object calls a function in C, which takes no lock and which no signal handler can
    interrupt, as it could a ``__del__``.
    """

    __slots__ = ("function",)

    function: Callable[[], object]


class Timer:
    """Runs short functions at their time, one after another, on its own thread. Thread-safe.

    Only the thread knows the schedule; what is new reaches it by a queue whose ``put`` may be
    called in the middle of anything, in signal handlers and finalizers too.
    """

    def __init__(self, name: str) -> None:
        self._new: NativeQueue[_Entry | Guard | None] = NativeQueue()
        self._order = itertools.count()
        self._closed = False
        self._sweep_at = _FEW
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; what was scheduled before runs too."""
        self._thread = start_thread("timer", self._run, self._name)

    def call_later(self, delay: float, function: Callable[[], object]) -> TimerHandle:
        """Run ``function()`` after ``delay`` seconds. Does not block."""
        handle = TimerHandle(function)
        self._new.put((time.monotonic() + delay, next(self._order), handle))
        return handle

    def settle(self, timeout: float) -> None:
        """Wait until what is due now has run, at most ``timeout`` seconds. On the timer thread it
        does not wait."""
        if self._thread is None or self._thread is threading.current_thread():
            return
        settled = Latch()
        self.call_later(0.0, settled.set)
        settled.wait(timeout)

    def guard(self, thing: object, function: Callable[[], object]) -> Guard:
        """Return a guard that runs ``function()``, which must not hold ``thing``, when that is
        dropped while the guard is still held. Does not block."""
        guard = Guard(thing, self._new.put)
        guard.function = function
        return guard

    def _run(self) -> None:
        schedule: list[_Entry] = []
        while not self._closed:
            self._step(schedule)  # its variables must not keep a connection alive

    def _step(self, schedule: list[_Entry]) -> None:
        """Add a new call to the schedule, or run a due one, or wait for either."""
        wait = None
        if schedule:
            wait = min(max(0.0, schedule[0][0] - time.monotonic()), threading.TIMEOUT_MAX)
        try:
            entry = self._new.get(timeout=wait) if wait != 0 else self._new.get_nowait()
        except Empty:
            if schedule[0][0] <= time.monotonic():
                handle = heapq.heappop(schedule)[2]
                if not handle.cancelled:
                    self._call(handle.function)
            return
        if isinstance(entry, Guard):
            self._call(entry.function)
        elif entry is not None and not entry[2].cancelled:
            heapq.heappush(schedule, entry)
            if len(schedule) >= self._sweep_at:
                self._sweep(schedule)

    def _sweep(self, schedule: list[_Entry]) -> None:
        """Remove what is cancelled. The next time is when the rest has doubled, so that a schedule
        has no more entries that are cancelled than others, and a sweep costs little per entry."""
        schedule[:] = [entry for entry in schedule if not entry[2].cancelled]
        heapq.heapify(schedule)
        self._sweep_at = max(_FEW, 2 * len(schedule))

    @staticmethod
    def _call(function: Callable[[], object]) -> None:
        try:
            function()
        except Exception:
            logger.exception("a timed function failed")

    def close(self, timeout: float) -> None:
        """Stop the thread and wait for its end: see :meth:`join`."""
        self._closed = True
        self._new.put(None)
        self.join(timeout)

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, unless this is it. Blocks up to ``timeout`` seconds."""
        if self._thread is not None:
            self._thread.join(timeout)
