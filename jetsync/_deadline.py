"""Time budgets.

A timeout in jetsync is a budget for a whole call, not for each step of it. ``Deadline`` carries
that budget on the monotonic clock through every blocking step, so wall-clock jumps change nothing.
"""

from __future__ import annotations

import math
import threading
import time
from datetime import timedelta

from jetsync.errors import ConfigError

__all__ = ["Deadline", "Seconds", "to_seconds"]

Seconds = float | timedelta
"""A duration as users may write it: seconds, or a ``timedelta``. It reads back as ``float``."""


_LONGEST = min(1e9, threading.TIMEOUT_MAX)
"""The longest wait of the system, in seconds (30 years); ``inf`` waits for this long."""


def to_seconds(value: Seconds, name: str = "timeout") -> float:
    """Return a duration as ``float`` seconds; an ``int`` that no ``float`` can hold is ``inf``.

    Raises ``ConfigError`` (naming ``name``) for negative, NaN or non-numeric values. Never blocks.
    """
    if type(value) is float and value >= 0.0:
        return value  # nearly always, on the way of every call
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf if value > 0 else -math.inf
    else:
        raise ConfigError(f"{name} must be seconds or a timedelta, not {type(value).__name__}")
    if math.isnan(seconds) or seconds < 0:
        raise ConfigError(f"{name} must not be negative or NaN, got {value!r}")
    return seconds


class Deadline:
    """A point on the monotonic clock by which a call has to be over.

    ``Deadline(None)`` never expires. Immutable, hence safe to share between threads.
    """

    __slots__ = ("at", "timeout")

    def __init__(self, timeout: Seconds | None) -> None:
        if timeout is not None and not (type(timeout) is float and timeout >= 0.0):
            timeout = to_seconds(timeout)
        self.timeout: float | None = timeout
        """The seconds that there were at the beginning, for what is told when they are over."""
        self.at: float | None = None if timeout is None else time.monotonic() + timeout
        """That point, or None."""

    def remaining(self) -> float | None:
        """Return the seconds left, never below zero, or None for "no limit".

        It is never more than a wait of the system takes, so it can be given to any of them.
        """
        if self.at is None:
            return None
        left = self.at - time.monotonic()  # as `within`: one call less on the way of every call
        return 0.0 if left <= 0.0 else left if left < _LONGEST else _LONGEST

    def within(self, limit: float) -> float:
        """Return the seconds left, but at most ``limit``."""
        if self.at is None:
            return limit
        left = self.at - time.monotonic()
        if left > limit:
            return limit
        return left if left > 0.0 else 0.0

    def step(self, limit: float) -> Deadline:
        """Return the deadline of one step: in at most ``limit`` seconds, and never after this."""
        return Deadline(self.within(limit))

    @property
    def expired(self) -> bool:
        """Whether the budget is used up."""
        return self.at is not None and time.monotonic() >= self.at
