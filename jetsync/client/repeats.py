"""Repeats: sends the PINGs that tell which acknowledgements of the resend buffer have arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._core.outbound import Outbound
from jetsync.client.pongs import Pong
from jetsync.client.timer import Timer

if TYPE_CHECKING:
    from jetsync.client.session import Session

__all__ = ["Repeats"]

_ASK_AFTER = 1.0


class Repeats:
    """Finds out which frames of the resend buffer the server has, so that they are dropped there.

    A PONG proves it for everything sent before its PING. While the buffer has frames there is one
    PING a second, and one for each further half megabyte; otherwise there is none. Thread-safe,
    never waits.
    """

    def __init__(self, session: Session, outbound: Outbound, timer: Timer) -> None:
        self._session = session
        self._outbound = outbound
        self._timer = timer

    def find_out(self, wanted: int) -> None:
        """Do what the outbound buffer asks for: 1 begins the PINGs, 2 sends one more now."""
        if wanted == 1:
            self._timer.call_later(_ASK_AFTER, self._ask)
        else:
            self._session.ping(_Arrived(self, again=False))

    def _ask(self) -> None:
        self._session.ping(_Arrived(self, again=True))

    def _answered(self, point: int, *, again: bool) -> None:
        if self._outbound.arrived(point, again) and again:
            self._timer.call_later(_ASK_AFTER, self._ask)

    def _lost(self, *, again: bool) -> None:
        if again:
            self._timer.call_later(_ASK_AFTER, self._ask)


class _Arrived(Pong):
    """A PING whose PONG proves that every frame kept so far has arrived."""

    def __init__(self, repeats: Repeats, *, again: bool) -> None:
        super().__init__()
        self._repeats = repeats
        self._point = repeats._outbound.resend_point()
        self._again = again

    def finish(self, error: Exception | None = None) -> None:
        if error is None:
            self._repeats._answered(self._point, again=self._again)
        else:
            self._repeats._lost(again=self._again)
