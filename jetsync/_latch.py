"""Latch: an event that happens once, usable in signal handlers, finalizers and every thread.

``threading.Event`` has a lock of its own, taken in Python code: a signal handler that runs while
its thread holds it would wait for itself. Here each waiter brings its own lock, and every step is
one operation of a deque.
"""

from __future__ import annotations

import collections
import itertools
import threading

from jetsync._native import original

__all__ = ["Latch", "Once", "Turn"]


class Latch:
    """Something that happens once, and can be waited for. Thread-safe."""

    __slots__ = ("_happened", "_waiters")

    def __init__(self) -> None:
        self._happened = False
        self._waiters: collections.deque[threading.Lock] = collections.deque()

    def set(self) -> None:
        """Set it and release every waiter. Does not block; safe to repeat."""
        self._happened = True
        while self._waiters:
            try:
                waiter = self._waiters.popleft()
            except IndexError:  # another thread removed it first
                return
            waiter.release()

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._happened

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds (None: without end); returns whether it has happened.
        Ctrl-C interrupts; raises MemoryError when there is none for a lock."""
        if self._happened or (timeout is not None and timeout <= 0):
            return self._happened
        try:
            waiter: threading.Lock = original("_thread", "allocate_lock")()
        except RuntimeError as error:  # what the interpreter says without memory for a lock
            raise MemoryError("no memory to wait") from error
        waiter.acquire()
        self._waiters.append(waiter)
        try:
            if not self._happened:  # else `set` may have missed this waiter
                seconds = -1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)
                waiter.acquire(timeout=seconds)
            return self._happened
        finally:
            if not self._happened:
                try:
                    self._waiters.remove(waiter)
                except ValueError:
                    pass


class Once:
    """Returns True to the first call, and False to all others. Thread-safe."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = itertools.count()

    def first(self) -> bool:
        """Whether this call is the first one."""
        return next(self._count) == 0


class Turn:
    """The right to do a job that one thread at a time does. Thread-safe; takes no lock.

    A thread that brings work and fails to take the turn leaves the work to the holder, which checks
    for work once more after it has given back the turn.
    """

    __slots__ = ("_holder",)

    def __init__(self) -> None:
        self._holder: dict[str, object] = {}

    def take(self, token: object) -> bool:
        """Take the turn for the owner of ``token``; returns whether that has it now."""
        return self._holder.setdefault("token", token) is token

    def give_back(self, token: object) -> None:
        """Give it back, unless another one has it."""
        if self._holder.get("token") is token:
            self._holder.pop("token", None)
