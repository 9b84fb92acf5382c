"""The rows of a task on their way into a stream: one publish after another goes on with them.

The publish window stays open from one batch of Spark's to the next: while the last rows of one are
not confirmed yet, the next one is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetsync.errors import Error
from jetsync.jetstream.publish.many import ArrowBatches

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync.jetstream.publish.many import BulkWindow

__all__ = ["Failures", "TaskRows"]

Failures = list[tuple[int, Exception]]
"""Rows of a batch that are not stored, each with the reason."""


@dataclass
class _Piece:
    """A batch of which some rows may not be settled. ``first``: the number of its row 0 in the
    window; ``taken``: how many of its rows the window, or one before it, has taken."""

    batch: pa.RecordBatch
    source: ArrowBatches
    first: int
    taken: int = 0

    @property
    def is_taken(self) -> bool:
        return self.taken >= int(self.batch.num_rows)


class TaskRows:
    """Feeds normalised batches to bulk publishes and holds those whose rows are not settled.

    Each publish has to stop at its first failures (``max_failed=0``): a batch is held while rows of
    it are in the window. For one thread.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], subject: str | None) -> None:
        self._batches: Iterator[pa.RecordBatch] = iter(batches)
        self._subject = subject
        self._held: deque[_Piece] = deque()
        self._window: BulkWindow | None = None
        self._error: BaseException | None = None
        self.is_over: bool = False
        """Whether every row was taken."""

    @property
    def window(self) -> BulkWindow | None:
        """The window that has taken rows last."""
        return self._window

    def feed(self, window: BulkWindow) -> bool:
        """Add rows to the window; False when there are none left. Blocks while Spark makes them."""
        if window is not self._window:
            self._begin(window)
        while self._held and self._held[0].is_taken and self._end_of_first <= window.oldest:
            self._held.popleft()
        if not self._held or self._held[-1].is_taken:
            batch = self._next()
            if batch is None:
                self.is_over = True
                return False
            self._held.append(_Piece(batch, self._source_of(batch), window.added))
        piece, before = self._held[-1], window.added
        try:
            piece.source.feed(window)
        finally:
            piece.taken += window.added - before
        return True

    def failures(self, failed: Iterable[tuple[int, Exception]]) -> list[_Failed]:
        """Return what failed in the last window, by batch. ``failed`` has the window's numbers."""
        found: list[_Failed] = []
        wanted = sorted(failed, key=lambda item: item[0])
        for piece in self._held:
            end = piece.first + piece.taken
            rows = [(n - piece.first, error) for n, error in wanted if piece.first <= n < end]
            if rows:
                found.append((piece.batch, rows))
        return found

    def interrupted(self, error: Error) -> tuple[int, list[_Failed]]:
        """Return how many rows the last window has certainly stored when ``error`` ended it, and
        all others that it had taken, by batch, as failures."""
        found: list[_Failed] = []
        stored = 0 if self._window is None else self._window.added
        for piece in self._held:
            # Those before were settled by the window before.
            begin = max(0, -piece.first)
            rows: Failures = [(row, error) for row in range(begin, piece.taken)]
            stored -= len(rows)
            if rows:
                found.append((piece.batch, rows))
        return stored, found

    @property
    def untaken(self) -> range:
        """The rows of the last batch that no window has taken."""
        if not self._held:
            return range(0)
        return range(self._held[-1].taken, self._held[-1].batch.num_rows)

    @property
    def _end_of_first(self) -> int:
        return self._held[0].first + self._held[0].taken

    def _begin(self, window: BulkWindow) -> None:
        """Go on in a new window, which counts anew."""
        self._window = window
        self._held = deque(piece for piece in self._held if not piece.is_taken)
        for piece in self._held:
            piece.first = -piece.taken

    def _next(self) -> pa.RecordBatch | None:
        if self._error is not None:
            raise self._error  # a generator that has raised would look like its end
        try:
            return next((batch for batch in self._batches if batch.num_rows), None)
        except BaseException as error:
            self._error = error
            raise

    def _source_of(self, batch: pa.RecordBatch) -> ArrowBatches:
        names = batch.schema.names
        return ArrowBatches(
            batch,
            subject="subject" if self._subject is None else self._subject,
            data_column="data",
            headers="headers" if "headers" in names else None,
            msg_id="msg_id" if "msg_id" in names else None,
        )


_Failed = tuple["pa.RecordBatch", Failures]
