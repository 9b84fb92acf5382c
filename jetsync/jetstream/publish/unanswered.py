"""Unanswered: which messages of a window wait for an answer that no server will send."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jetsync.jetstream.publish.outcome import PERSISTENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from jetsync._core.window import PublishWindow
    from jetsync.client.port import Port

__all__ = ["Unanswered"]


class Unanswered:
    """Judges the messages of one window. For the thread that settles them.

    A leader that steps down can lose a message, or its answer, in silence. Two signs tell: nothing
    was heard for a while, or messages that left later were answered. A server that is slow and a
    link that is full look the same at first, so a PING is sent behind the messages: those that are
    still open when its PONG has come are lost. After that the patience is twice as long, until all
    that had left by then is settled.
    """

    def __init__(self, port: Port, window: PublishWindow, wake: Callable[[], object]) -> None:
        self._port = port
        self._window = window
        self._wake = wake
        self._heard = time.monotonic()
        self._patience = PERSISTENCE.window_silence
        self._begin(self._heard)

    def _begin(self, now: float) -> None:
        """Watch what has left by now."""
        self._since = now
        self._below = self._window.handed_over
        self._doubt: _Doubt | None = None

    def heard(self, now: float) -> None:
        """An answer came."""
        self._heard = now

    def restart(self, now: float) -> None:
        """Begin anew: all that was under way is settled, or is sent again."""
        self._heard = now
        self._be_patient()
        self._begin(now)

    def _be_patient(self) -> None:
        self._patience = max(PERSISTENCE.window_silence, self._port.rtt)

    def lost_below(self, now: float) -> int:
        """Return the number below which open messages are lost; 0: none is known to be."""
        window = self._window
        if window.oldest >= self._below:
            self._be_patient()
            self._begin(now)
            return 0
        if now - self._since <= self._patience:
            return 0
        is_silent = now - self._heard > self._patience
        if not is_silent and not window.is_overtaken(self._below):
            return 0
        if self._doubt is None:
            self._doubt = _Doubt(now, self._wake)
            self._port.after_pong(self._doubt.end)
        if not self._doubt.is_over(now, self._patience):
            return 0
        below = window.handed_over if is_silent else self._below
        self._patience *= 2
        self._heard = now
        self._begin(now)
        return below


class _Doubt:
    """The time from a PING until its PONG has come, and as long again if the link is slow."""

    def __init__(self, begun: float, wake: Callable[[], object]) -> None:
        self._begun = begun
        self._wake = wake
        self._took: float | None = None

    def end(self) -> None:
        """The PONG has come, or the link is gone. Runs on the timer thread."""
        self._took = time.monotonic() - self._begun
        self._wake()

    def is_over(self, now: float, longest: float) -> bool:
        """Whether answers that were under way have come; those of servers behind a slow link get
        ``longest`` seconds at most."""
        return self._took is not None and now >= self._begun + self._took + min(self._took, longest)
