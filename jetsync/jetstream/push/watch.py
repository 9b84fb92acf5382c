"""HeartbeatWatch: warns when neither messages nor heartbeats come. Runs on the timer thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync.jetstream.silence import Silence, judge_silence

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["ALARM_INTERVALS", "HeartbeatWatch"]

ALARM_INTERVALS = 3
"""Heartbeats that have to be missing before the alarm (subscribe workflow)."""


class HeartbeatWatch:
    """Checks every ``beat`` seconds whether there was a sign of life within ``alarm`` seconds.

    ``last_sign`` returns when the last one came, on the monotonic clock, and how often the link had
    received anything by then; None ends the watch. ``judge_silence`` decides: while bytes arrive
    that a heartbeat may be behind, the answer to a PING is awaited, and the alarm comes a beat
    after it at the latest. ``on_silence`` is called once in each silence, ``on_tick`` every time;
    both on the timer thread, so they must not block. Time without a link does not count as silence.
    """

    def __init__(
        self,
        port: Port,
        beat: float,
        alarm: float,
        *,
        last_sign: Callable[[], tuple[float, int] | None],
        on_silence: Callable[[], object],
        on_tick: Callable[[], object],
    ) -> None:
        self.beat = beat
        self.alarm = alarm
        self._port = port
        self._last_sign = last_sign
        self._on_silence = on_silence
        self._on_tick = on_tick
        self._since = self._read_at = time.monotonic()
        self._reads = 0
        self._asked_at = 0.0  # when the PING of a doubt was sent; 0.0: there is none
        self._ponged = False
        self._told = False

    def restart(self) -> None:
        """Count from now on: there is another link, or another consumer."""
        self._since = time.monotonic()

    def tick(self) -> None:
        """Check, and schedule the next check."""
        until_alarm = self._check()
        if until_alarm is None:
            return
        self._on_tick()
        wait = min(self.beat, until_alarm) if until_alarm > 0 else self.beat
        self._port.later(max(wait, 0.01), self.tick)

    def _check(self) -> float | None:
        """Judge the present silence; return the seconds until it is too long, None at the end."""
        sign = self._last_sign()
        if sign is None or self._port.closed:
            return None
        last, sign_reads = sign
        now, reads = time.monotonic(), self._port.reads
        if reads != self._reads:
            self._reads, self._read_at = reads, now
        if not self._port.linked:
            self._since = now
        silent = now - max(last, self._since)
        if silent < self.alarm:
            self._told, self._asked_at = False, 0.0
        elif not self._told:
            self._judge(now, reads != sign_reads)
        return self.alarm - silent

    def _judge(self, now: float, is_receiving: bool) -> None:
        """Send a PING, wait for its PONG, or call ``on_silence``: nothing came for too long."""
        silence = judge_silence(
            now,
            asked_at=self._asked_at,
            ponged=self._ponged,
            is_receiving=is_receiving,
            read_at=self._read_at,
            patience=self.beat + self._port.rtt,
            has_unread=self._port.has_unread,
        )
        if silence is Silence.DOUBT:
            self._asked_at, self._ponged = now, False
            self._port.after_pong(lambda: self._on_pong(now))
        elif silence is Silence.DEAD:
            self._told = True
            self._on_silence()

    def _on_pong(self, asked_at: float) -> None:
        if asked_at == self._asked_at:  # else a sign of life came meanwhile
            self._ponged = True
            self._check()
