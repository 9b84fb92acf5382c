"""Which call waits for which PONG. PONGs come in the order of their PINGs: counting is enough.

No lock is taken: a signal handler may flush while the code it interrupted does, and the reader must
never wait for a caller. A caller that adds its PING checks again whether the reader saw the PONG.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jetsync._latch import Latch
from jetsync.errors import TimeoutError

__all__ = ["Pong", "PongCall", "Pongs", "RoundTrip"]


class Pong:
    """The wait of one call for a PONG."""

    def __init__(self) -> None:
        self._done = Latch()
        self.error: Exception | None = None

    def finish(self, error: Exception | None = None) -> None:
        """The PONG has come; with an error, it will not come any more."""
        self.error = error
        self._done.set()

    def wait(self, timeout: float | None) -> bool:
        """Wait for it; returns whether it was finished."""
        return self._done.wait(timeout)

    def check(self, timeout: float | None) -> None:
        """Wait for it. Raises TimeoutError, or the error that it was finished with."""
        if not self.wait(timeout):
            raise TimeoutError("the server did not answer in time", operation="flush")
        if self.error is not None:
            raise self.error


class PongCall(Pong):
    """A function that is called by the reader when the PONG comes, or the link dies."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__()
        self._function = function

    def finish(self, error: Exception | None = None) -> None:
        """See ``Pong.finish``."""
        super().finish(error)
        self._function()


class RoundTrip:
    """The round trip to the server, smoothed as TCP does it (RFC 6298)."""

    def __init__(self) -> None:
        self._mean = 0.0
        self._spread = 0.0
        self.seconds: float = 0.0
        """The smoothed round trip with four times its spread on top; 0.0 before the first."""
        self.least: float = 0.0
        """The shortest one: that of a link with empty queues; 0.0 before the first."""

    def measured(self, seconds: float) -> None:
        """Take one measurement."""
        if not self._mean:
            self._mean, self._spread = seconds, seconds / 2
            self.least = seconds
        else:
            self._spread += (abs(self._mean - seconds) - self._spread) / 4
            self._mean += (seconds - self._mean) / 8
            self.least = min(self.least, seconds)
        self.seconds = self._mean + 4 * self._spread


class Pongs:
    """The PINGs of one link that are not answered yet, by their number."""

    def __init__(self, round_trip: RoundTrip) -> None:
        # By number: a PING whose caller was interrupted leaves a gap here, no confusion.
        self._waiting: dict[int, tuple[Pong | None, float, int]] = {}
        self._answered = 0
        self._lost: Exception | None = None
        self._round_trip = round_trip

    def add(self, number: int, pong: Pong | None, position: int = 0) -> None:
        """Wait for the PONG of PING ``number``, which was just written to the buffer.
        :meth:`answered` returns ``position`` when the PONG comes."""
        self._waiting[number] = (pong, time.monotonic(), position)
        if self._lost is not None:
            self._finish(number, self._lost)
        elif self._answered >= number:
            self._finish(number, None)

    def answered(self, number: int) -> int:
        """Note the PONG of PING ``number``. Returns the position of that PING among the SUB lines.
        Only the reader calls this. Numbers of PONGs that the core deals with are left out."""
        self._answered = number
        position = self._waiting.get(number, (None, 0.0, 0))[2]
        self._finish(number, None)
        return position

    @property
    def positions(self) -> list[int]:
        """The positions of the PINGs without an answer, in the order in which they were written."""
        return [position for _, (_, _, position) in sorted(self._waiting.copy().items())]

    def fail(self, error: Exception) -> None:
        """The link is gone: no PONG comes any more."""
        self._lost = error
        for number in list(self._waiting):
            self._finish(number, error)

    def _finish(self, number: int, error: Exception | None) -> None:
        pong, sent, _ = self._waiting.pop(number, (None, 0.0, 0))
        if error is None and sent:
            self._round_trip.measured(time.monotonic() - sent)
        if pong is not None:
            pong.finish(error)

    def __len__(self) -> int:
        return len(self._waiting)
