"""HeartbeatWatch: warns when neither messages nor heartbeats come. Runs on the timer thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["ALARM_INTERVALS", "HeartbeatWatch"]

ALARM_INTERVALS = 3
"""Heartbeats that have to be missing before the alarm (subscribe workflow)."""


class HeartbeatWatch:
    """Checks every ``beat`` seconds whether there was a sign of life within ``alarm`` seconds.

    ``last_sign`` returns when the last one came, on the monotonic clock; None ends the watch. What
    waits here to be received counts as one. ``on_silence`` is called once in each silence,
    ``on_tick`` every time; both on the timer thread, so they must not block. Time without a link
    does not count as silence.
    """

    def __init__(
        self,
        port: Port,
        beat: float,
        alarm: float,
        *,
        last_sign: Callable[[], float | None],
        on_silence: Callable[[], object],
        on_tick: Callable[[], object],
    ) -> None:
        self.beat = beat
        self.alarm = alarm
        self._port = port
        self._last_sign = last_sign
        self._on_silence = on_silence
        self._on_tick = on_tick
        self._since = time.monotonic()
        self._told = False

    def restart(self) -> None:
        """Count from now on: there is another link, or another consumer."""
        self._since = time.monotonic()

    def tick(self) -> None:
        """Check, and schedule the next check."""
        last = self._last_sign()
        if last is None or self._port.closed:
            return
        self._on_tick()
        now = time.monotonic()
        if not self._port.linked:
            self._since = now
        silent = now - max(last, self._since)
        if silent < self.alarm:
            self._told = False
        elif not self._told and not self._port.has_unread():
            self._told = True
            self._on_silence()
        until_alarm = self.alarm - silent
        wait = min(self.beat, until_alarm) if until_alarm > 0 else self.beat
        self._port.later(max(wait, 0.01), self.tick)
