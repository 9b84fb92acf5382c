"""Window: how much a stream of messages may have in its buffer and on its way. No I/O, no clock."""

from __future__ import annotations

from jetsync.jetstream.pull.options import (
    DEFAULT_MESSAGES,
    HUGE_BATCH,
    LARGEST_BUFFER,
    LARGEST_WINDOW,
    BufferLimits,
)

__all__ = ["Window"]

_ENOUGH = 4
"""Times what the link holds (rate times round trip): a larger window would not help."""

_AHEAD = 2.0
"""Seconds of work of its user that a grown window may hold."""


class Window:
    """The bounds of one stream. What the user gave is a hard bound. Otherwise it begins with 1000
    messages and doubles while the user waits for messages that the server has ready, up to four
    times what the link holds, and 64,000 messages or 32 MiB. For one thread at a time.

    ``most`` is a bound that the consumer sets, such as its ``max_ack_pending``; 0: none.
    """

    def __init__(self, limits: BufferLimits, most: int = 0) -> None:
        self.max_messages = limits.max_messages
        self.threshold_messages = limits.threshold_messages
        self.max_bytes = limits.max_bytes
        self._threshold_bytes = limits.threshold_bytes
        self._grows = limits.grows
        self._most = min(LARGEST_WINDOW, most) if most > 0 else LARGEST_WINDOW
        self.may_grow = self._grows and self.max_messages < self._most
        """Whether it is of use to tell when the user waits."""
        self._rate = 0.0  # messages per second while the user waits for them
        self.is_whole = False
        """The next message needs all of ``max_bytes`` for itself: ask when the buffer is empty."""

    def plan(
        self,
        *,
        waiting: int,
        buffered: int,
        waiting_bytes: int,
        buffered_bytes: int,
        left: int | None,
    ) -> tuple[int, int]:
        """Return (messages to ask for now, or 0; how many may be left in the hand when this is to
        be asked again).

        ``waiting`` counts what is on its way or in the mailbox, ``buffered`` what is in the hand,
        ``left`` how many messages are still wanted (None: no end).
        """
        if self.max_bytes is not None:
            return self._plan_bytes(buffered, waiting_bytes, buffered_bytes, left)
        have = waiting + buffered
        want = self.max_messages - have
        if left is not None:
            want = min(want, left - waiting)
        if want <= 0:
            return 0, 0
        if have > self.threshold_messages:
            # The message after which no more than the threshold is there is taken the slow way.
            return 0, max(0, self.threshold_messages - waiting + 1)
        return want, 0

    def _plan_bytes(
        self, buffered: int, waiting_bytes: int, buffered_bytes: int, left: int | None
    ) -> tuple[int, int]:
        threshold = 0 if self.is_whole else self._threshold_bytes
        want = HUGE_BATCH if left is None else left
        if want <= 0:
            return 0, 0
        if waiting_bytes + buffered_bytes <= threshold:
            return want, 0
        if not buffered:
            return 0, 0
        each = max(
            1, buffered_bytes // buffered
        )  # the messages in the hand have about the same size
        return 0, min(buffered, max(0, threshold - waiting_bytes) // each + 1)

    def bytes_for(self, count: int, have_bytes: int) -> int | None:
        """The bytes that a pull of ``count`` messages may bring; None: no bound."""
        if self.max_bytes is not None:
            return max(1, self.max_bytes - have_bytes)
        if self.max_messages > DEFAULT_MESSAGES and self._grows:
            return max(1, count * LARGEST_BUFFER // self.max_messages)
        return None

    # -- growing -----------------------------------------------------------------------------------

    def took(self, count: int, seconds: float) -> None:
        """Note that so many messages came in so many seconds, in which the user waited."""
        rate = count / max(seconds, 1e-6)
        self._rate = rate if not self._rate else self._rate + (rate - self._rate) / 4

    def starved(self, round_trip: float, each: int) -> None:
        """The user waits although the server has more ready: double it if the link holds so much.
        ``round_trip`` in seconds, ``each``: bytes of a message."""
        if not self._grows:
            return
        most = min(self._most, LARGEST_BUFFER // (2 * max(1, each)))
        useful = _ENOUGH * self._rate * round_trip
        if self.max_messages < min(most, useful):
            self._resize(min(most, 2 * self.max_messages))

    def slowed(self, count: int, seconds: float) -> None:
        """The user has worked for so many seconds on so many messages: keep no more ready than a
        little while of that."""
        if self._grows and self.max_messages > DEFAULT_MESSAGES and seconds > _AHEAD / 4:
            useful = int(_AHEAD * count / seconds)
            if useful < self.max_messages:
                self._resize(useful)

    def shrink(self) -> bool:
        """A message did not fit into a pull: return to the first size. Returns whether it had
        grown, so that the bound in bytes was not the user's."""
        had_grown = self._grows and self.max_messages > DEFAULT_MESSAGES
        if had_grown:
            self._resize(DEFAULT_MESSAGES)
        return had_grown

    def _resize(self, size: int) -> None:
        self.max_messages = max(DEFAULT_MESSAGES, size)
        self.threshold_messages = self.max_messages // 2
