"""Crew: which of a worker's threads rest, and when another one is woken."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from queue import Empty

from jetsync._native import NativeQueue, original
from jetsync.worker.pace import Pace

__all__ = ["Crew"]


class Crew:
    """Threads of which as few as suffice are awake. Thread-safe; takes no lock.

    Where ``pace`` says that one thread suffices, it runs the handlers one after another; otherwise
    a thread that begins one wakes another thread for what it leaves. A handler that runs for longer
    than those before it is noticed by the thread that watches.
    """

    def __init__(self, is_left: Callable[[], bool], needs_watching: Callable[[], bool]) -> None:
        self._is_left, self._needs_watching = is_left, needs_watching
        self._resting: collections.deque[threading.Lock] = collections.deque()
        self.pace = Pace()
        self._calls: NativeQueue[None] = NativeQueue()
        self._is_asleep = False
        self.is_over = False

    @staticmethod
    def gate() -> threading.Lock:
        """Return a lock that is taken: the one that a thread waits for. Each thread has its own."""
        gate: threading.Lock = original("_thread", "allocate_lock")()
        gate.acquire()
        return gate

    @property
    def has_resting(self) -> bool:
        """Whether there is a thread to wake."""
        return bool(self._resting)

    def rest(self, gate: threading.Lock) -> None:
        """Wait until the caller is woken, unless there is something to do."""
        self._resting.append(gate)
        self._wait(gate, self.is_over or self._is_left())

    def _wait(self, gate: threading.Lock, is_needed: bool) -> None:
        """Wait until woken, unless the caller is needed. It was listed before that was asked, so a
        thread may be waking it already."""
        if is_needed:
            try:
                self._resting.remove(gate)
                return
            except ValueError:
                pass  # it is being woken
        gate.acquire()

    def wake(self) -> bool:
        """Wake the thread that has rested for the shortest time; False when none rests."""
        try:
            gate = self._resting.pop()
        except IndexError:
            return False
        gate.release()
        return True

    def end(self) -> None:
        """Let no thread rest from now on."""
        self.is_over = True
        while self.wake():
            pass

    # -- which thread is needed --------------------------------------------------------------------

    def begin(self) -> None:
        """A thread begins a job: wake another one for what is left, or the one that watches."""
        if not self.pace.is_one and self._resting and self._is_left():
            self.wake()
        if self._is_asleep and self._needs_watching():
            self.rouse()

    def step_back(self, gate: threading.Lock) -> None:
        """Rest although jobs wait, since another thread that runs is soon done with them."""
        if self.pace.is_one:
            self._resting.append(gate)
            if self._is_asleep:
                self.rouse()
            self._wait(gate, self.is_over)

    # -- the thread that watches -------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Wait until a thread begins a job that has to be watched, or ``rouse`` is called."""
        self._is_asleep = True
        if not self._needs_watching():
            try:
                self._calls.get(timeout=seconds)
            except Empty:
                pass
        self._is_asleep = False

    def rouse(self) -> None:
        """End ``sleep``. Any thread."""
        self._is_asleep = False
        self._calls.put(None)
