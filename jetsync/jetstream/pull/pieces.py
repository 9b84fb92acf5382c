"""PiecewisePull: a pull whose messages are taken while the later ones are still on their way."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync.jetstream.pull.batch import BatchOptions, BatchPull

if TYPE_CHECKING:
    from jetsync.jetstream.message import MsgBatch
    from jetsync.jetstream.pull.source import Source

__all__ = ["PiecewisePull"]


class PiecewisePull(BatchPull):
    """One fetch, taken in pieces. It is asked for when this is made; between two calls the messages
    come into the inbox, as many as were asked for. For one thread.

    ``done`` is called once, when the inbox is not used any more: at the end, or by `close`.
    """

    def __init__(self, source: Source, options: BatchOptions, done: Callable[[], object]) -> None:
        super().__init__(source, options)
        self._done: Callable[[], object] | None = done
        self.has_given: bool = False
        """Whether a piece was taken that was not the last one."""
        try:
            inbox = self._open()
            if inbox is not None and not self._is_over:
                self._ask(inbox, time.monotonic())
        except BaseException:
            self.close()
            raise

    def take(self, least: int) -> MsgBatch:
        """Return the next messages: ``least`` or more, fewer only at the end of the pull.

        Blocks up to the timeout of the pull, counted from this call. Raises like a fetch when
        nothing came. ``is_over`` says whether that was the last piece.
        """
        self._ends_at = time.monotonic() + self._options.timeout
        self._least = least
        try:
            batch = self.run()
        except BaseException:
            self.close()
            raise
        if self._is_over:
            self.close()
        assert batch is not None
        return batch

    def _result(self) -> MsgBatch | None:
        if self._is_over:
            return super()._result()
        assert self._inbox is not None
        piece: MsgBatch = self._inbox.release()
        self.has_given = True  # and from now on the pull is for the rest
        self._limit -= len(piece)
        size = self._options.max_bytes
        if size is not None:
            self._options = dataclasses.replace(
                self._options, max_bytes=max(1, size - piece.nbytes)
            )
        return piece

    @property
    def is_over(self) -> bool:
        """Whether the last piece was taken."""
        return self._done is None

    def close(self) -> None:
        """Give the inbox back. What comes of the pull is there for the next one. Safe to repeat."""
        done, self._done = self._done, None
        if done is not None:
            done()
