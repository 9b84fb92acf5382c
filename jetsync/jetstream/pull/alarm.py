"""Alarm: wakes a mailbox when something may have to be done although nothing came."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from jetsync._core.pulls import ALIGNMENT
from jetsync._locks import lock

if TYPE_CHECKING:
    from jetsync._core.mailbox import Mailbox
    from jetsync.client.port import Port, TimerHandle

__all__ = ["Alarm"]

# Seconds. Times that are further away are rounded up to a multiple of ALIGNMENT: the timer thread
# wakes once for many alarms.
_FAR = 1.0


class Alarm:
    """Wakes one mailbox at a time. Set by the thread that takes from it; the timer thread
    calls ``_ring``.

    At most one timed call is under way, and no more than one is made for any number of settings to
    later times: when it runs too early it goes on to the right time.
    """

    __slots__ = ("_at", "_lock", "_mailbox", "_patience", "_port", "_rings_at", "_since", "_timer")

    def __init__(self, port: Port, mailbox: Mailbox) -> None:
        self._port = port
        self._mailbox = mailbox
        self._at = self._rings_at = math.inf
        self._since = self._patience = 0.0
        self._timer: TimerHandle | None = None
        self._lock = lock("jetstream/pull/alarm.py _lock")

    def set(self, mailbox: Mailbox, at: float, since: float = 0.0, patience: float = 0.0) -> None:
        """Wake the mailbox at ``at`` (monotonic), or ``patience`` seconds after the last sign of
        life in it, counted from ``since`` at the earliest (0: only at ``at``). Does not block."""
        as_before = at == self._at and patience == self._patience and since == self._since
        if as_before and mailbox is self._mailbox:
            return  # and it has not rung: that changes `_at`
        with self._lock:
            self._mailbox, self._at = mailbox, at
            self._since, self._patience = since, patience
            self._plan(self._due())

    def _due(self) -> float:
        if not self._patience:
            return self._at
        return min(self._at, max(self._since, self._mailbox.last_put) + self._patience)

    def _plan(self, due: float) -> None:
        """See to it that the timer calls in time. Under the lock."""
        if self._rings_at <= due or due == math.inf:
            return
        if self._timer is not None:
            self._timer.cancel()
        left = due - time.monotonic()
        if left > _FAR:
            left += math.ceil(due / ALIGNMENT) * ALIGNMENT - due
        self._rings_at = due
        self._timer = self._port.later(max(0.0, left), self._ring)

    def _ring(self) -> None:
        """Wake the mailbox, unless there was a sign of life meanwhile. Runs on the timer thread."""
        with self._lock:
            self._timer, self._rings_at = None, math.inf
            due = self._due()
            if due <= time.monotonic():
                self._at, self._patience = math.inf, 0.0
                self._mailbox.wake()
            else:
                self._plan(due)

    def cancel(self) -> None:
        """Do not wake it any more. Does not block."""
        with self._lock:
            self._at, self._patience = math.inf, 0.0
            if self._timer is not None:
                self._timer.cancel()
                self._timer, self._rings_at = None, math.inf
