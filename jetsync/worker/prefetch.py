"""Prefetch: how many messages a worker holds at a time."""

from __future__ import annotations

import time

__all__ = ["Prefetch"]

_AHEAD = 0.5
_MOST = 1000
_PAUSE = 1.0


class Prefetch:
    """The number of messages that are held, running ones included: ``given``, or as many as the
    handlers get through in half a second, from two for each thread up to 1000 and ``max_pending``.

    A worker with short jobs so sends few pulls, and one with long jobs leaves the messages that it
    cannot begin soon to others. For one thread.
    """

    def __init__(
        self, given: int | None, threads: int, max_pending: int, now: float | None = None
    ) -> None:
        self._least = 2 * threads if given is None else given
        bound = min(_MOST, max_pending) if max_pending > 0 else _MOST
        self.most: int = max(self._least, bound) if given is None else given
        self.limit: int = self._least
        self._handled = 0
        self._since: float = time.monotonic() if now is None else now

    def note(self, handled: int, now: float | None = None) -> None:
        """Adapt the limit each time that as many messages as the limit were handled, and in a
        pause. ``handled`` counts from the start; ``now`` is on the monotonic clock."""
        now = time.monotonic() if now is None else now
        count, seconds = handled - self._handled, now - self._since
        if self._least == self.most or (count < self.limit and seconds < _PAUSE):
            return
        self._handled, self._since = handled, now
        speed = count / seconds if seconds > 0 else float("inf")
        self.limit = int(max(self._least, min(self.most, 2 * self.limit, _AHEAD * speed)))
