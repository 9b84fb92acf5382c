"""Repeats: finds out which acknowledgements of the resend buffer have arrived."""

from __future__ import annotations

from jetsync._core.outbound import Outbound
from jetsync.client.timer import Timer

__all__ = ["Repeats"]

_ASK_AFTER = 1.0


class Repeats:
    """Has it found out which frames of the resend buffer the server has, so that they are dropped
    there.

    A PONG proves it for everything sent before its PING. While the buffer has frames there is one
    PING a second, and the core sends one for each further half megabyte; otherwise there is none.
    The core deals with their PONGs, without the GIL. Thread-safe, never waits.
    """

    def __init__(self, outbound: Outbound, timer: Timer) -> None:
        self._outbound = outbound
        self._timer = timer

    def find_out(self) -> None:
        """Ask once a second, from now on until all has arrived."""
        self._timer.call_later(_ASK_AFTER, self._ask)

    def _ask(self) -> None:
        if self._outbound.ask_what_arrived():
            self.find_out()
