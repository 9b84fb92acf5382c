"""Recovery: when an ordered reader gets a new server consumer, and when it has to give up.

The rules that ordered pull and ordered push have in common: how long to wait between attempts, how
to tell whether the stream is still the same, and how long to wait for a stream that seems to be
gone or shorter while a leader is elected. No I/O and no clock of its own.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync.errors import (
    DisconnectedError,
    Error,
    JetStreamError,
    StreamNotFoundError,
)

if TYPE_CHECKING:
    from jetsync.jetstream.config.stream_info import StreamInfo

__all__ = ["FIRST_WAIT", "Recovery"]

FIRST_WAIT = 0.1
"""Seconds before the second attempt in a row; the first one is made at once."""

_LONGEST_WAIT = 2.0
# Seconds for each request of the first attempt; those after failures have a second more each time.
_FIRST_PATIENCE = 2.0
# Seconds: a stream that is not found may come back after a restart; after this it is gone.
_GONE_AFTER = 2.0
# Seconds: a new leader may have fewer messages than were read, until it has caught up.
_ANOTHER_AFTER = 4.0


class Recovery:
    """The failures of one ordered reader so far. For one thread at a time.

    ``head``: the stream reached at least to this sequence.
    """

    def __init__(self, stream: str, max_resets: int = -1) -> None:
        self.stream = stream
        self._max_resets = max_resets
        self._created: datetime | None = None
        self.head: int = 0
        self.failures: int = 0
        """Resets in a row without a message or a heartbeat between them."""
        self.not_before: float = 0.0
        """When the next attempt may be made, on the monotonic clock."""
        self._attempted_at: float = 0.0
        self._gone_since: float | None = None
        self._behind_since: float | None = None

    def begin(self, info: StreamInfo) -> None:
        """Note the stream that is read."""
        self._created, self.head = info.created, info.state.last_seq

    def progress(self, seq: int) -> None:
        """A message came, with this stream sequence."""
        self.reached(seq)
        self.failures = 0

    def reached(self, seq: int) -> None:
        """The stream reached at least to this sequence."""
        self.head = max(self.head, seq)

    def alive(self) -> None:
        """A heartbeat came, or the consumer was made: earlier failures no longer count."""
        self.failures = 0

    def found(self) -> None:
        """The stream was found."""
        self._gone_since = None

    def attempt(self, now: float) -> float:
        """Begin an attempt; return the seconds for each request of it."""
        self._attempted_at = now
        return _FIRST_PATIENCE + self.failures

    def failed(self, reason: str, now: float) -> JetStreamError | None:
        """Count a failure: the first in a row is repaired at once; the next attempts begin ever
        longer after the one before. Returns the error when there were too many."""
        self.failures += 1
        wait = 0.0
        if self.failures > 1:
            wait = min(FIRST_WAIT * 2.0 ** min(self.failures - 2, 8), _LONGEST_WAIT)
        # An attempt that waited for an answer has waited already.
        self.not_before = max(now, self._attempted_at + wait)
        if 0 <= self._max_resets < self.failures:
            return JetStreamError(
                f"the ordered consumer of {self.stream!r} was reset "
                f"{counted(self.failures, 'time')} in a row without a message between; last "
                f"reason: {reason}"
            )
        return None

    def is_final(self, error: Error, now: float) -> bool:
        """Whether an attempt that failed with this error was the last one: the stream was not
        found for a while."""
        if not isinstance(error, StreamNotFoundError):
            return False
        if self._gone_since is None:
            self._gone_since = now
        return now - self._gone_since >= _GONE_AFTER

    def compare(self, info: StreamInfo, now: float) -> JetStreamError | None:
        """Judge whether a stream is still the same: in another one the position has no meaning, and
        a reader could wait for ever.

        Raises DisconnectedError as long as that may be a leader that has to catch up; returns the
        error when it is another stream for good: at once when it was made later than the one that
        is read.
        """
        if self._created is None:
            self._created = info.created
        if info.created == self._created and info.state.last_seq >= self.head:
            self._behind_since = self._gone_since = None
            return None
        if self._behind_since is None:
            self._behind_since = now
        is_newer = (
            info.created is not None and self._created is not None and info.created > self._created
        )
        if not is_newer and now - self._behind_since < _ANOTHER_AFTER:
            raise DisconnectedError(
                f"the leader of stream {self.stream!r} is behind what was read already"
            )
        return JetStreamError(
            f"stream {self.stream!r} is not the one it was: it was deleted and made again, or has "
            f"lost its end (last sequence {info.state.last_seq}, was {self.head}); "
            "begin to read it anew"
        )
