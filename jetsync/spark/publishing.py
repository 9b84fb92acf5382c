"""Publishing the rows of one task: all are acknowledged, or an error names those that are not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync._log import Log
from jetsync.errors import (
    BatchPublishError,
    Error,
    ExpectedStreamMismatchError,
    MaxPayloadError,
    MessageTooLargeError,
    PermissionsError,
    TimeoutError,
    WrongLastSequenceError,
)
from jetsync.jetstream.access import api_of
from jetsync.jetstream.publish.many import bulk_publish
from jetsync.spark.atomic import chunks, has_stored_rows, store_chunk
from jetsync.spark.connection import is_transient, shared, with_patience
from jetsync.spark.destinations import Destinations
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.expectations import (
    expecting_rows,
    is_refused_expectation,
    stored_before,
)
from jetsync.spark.ids import LoggedContentIds, PositionIds, SourceIds, short_hash
from jetsync.spark.marker import Size
from jetsync.spark.sink_columns import SinkColumns, without_source
from jetsync.spark.target import find_stream
from jetsync.spark.task_rows import Failures, TaskRows
from jetsync.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync import JetStream

__all__ = ["Published", "RowPublisher", "joined", "make_ids"]

log: Log = Log("jetsync.spark")

_CODES: tuple[tuple[type[Exception], str], ...] = (
    (WrongLastSequenceError, "JETSYNC_EXPECTATION_FAILED"),
    (ExpectedStreamMismatchError, "JETSYNC_WRONG_STREAM"),
    (MaxPayloadError, "JETSYNC_TOO_LARGE"),
    (MessageTooLargeError, "JETSYNC_TOO_LARGE"),
    (PermissionsError, "JETSYNC_ACCESS_DENIED"),
    (BatchPublishError, "JETSYNC_STREAM_CONFIG"),
)


class Ids(Protocol):
    """Makes the message ids of a task, batch after batch."""

    def column(self, batch: pa.RecordBatch, subject: str | None) -> pa.Array: ...


def make_ids(options: WriteOptions, query: str, batch_id: str, partition: int) -> Ids | None:
    """Return what makes the ids of one task, or None if they are in a column or not wanted."""
    prefix = f"{short_hash(query)}.{batch_id}.{partition}"
    if options.dedup == "content":
        return LoggedContentIds(prefix, options.dedup_rows)
    if options.dedup == "source":
        return SourceIds(short_hash(options.query_id) if options.query_id else "")
    if options.dedup == "position":
        return PositionIds(prefix)
    return None


@dataclass(frozen=True)
class Published:
    """How many rows are in the stream, how many of them were there before, and the first one."""

    stored: int = 0
    duplicates: int = 0
    first_seq: int = 0

    def __add__(self, other: Published) -> Published:
        firsts = [seq for seq in (self.first_seq, other.first_seq) if seq]
        return Published(
            self.stored + other.stored, self.duplicates + other.duplicates, min(firsts, default=0)
        )


# Rows or bytes that are prepared at a time.
JOINED_ROWS = 10_000
_JOINED_BYTES = 16 << 20


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of small Arrow batches in larger ones, in order, and no empty ones."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows += batch.num_rows
        # Not nbytes, which follows the offsets of lists: Spark before 4.2 leaves them out where a
        # column has no entries, and the process would crash.
        size += batch.get_total_buffer_size()
        if rows >= JOINED_ROWS or size >= _JOINED_BYTES:
            yield held[0] if len(held) == 1 else pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield held[0] if len(held) == 1 else pa.concat_batches(held)


class RowPublisher:
    """Publishes the rows of one task. Not thread-safe: a task has one."""

    def __init__(self, options: WriteOptions, columns: SinkColumns, ids: Ids | None) -> None:
        self._options = options
        self._columns = columns
        self._ids = ids
        self._destinations = Destinations(options, columns)
        self.size: Size = Size()
        """How much was published, or would be; counted for option commitMarker only."""

    def publish(self, batch: pa.RecordBatch) -> Published:
        """Publish a batch and wait for every acknowledgement, like :meth:`publish_all`."""
        return self.publish_all([batch])

    def publish_all(self, batches: Iterable[pa.RecordBatch]) -> Published:
        """Publish batches and wait until every row of all of them is acknowledged. Blocks.

        A batch is taken as soon as there is room for its rows, while others are not acknowledged
        yet. Rows without an acknowledgement are published again, with the same id, before more are
        taken. Raises ``SparkSourceError`` when a row cannot be stored, or not within
        ``publishRetries`` and ``serverUnavailableTimeout``; a row that cannot be a message is found
        before any of its batch is sent.
        """
        extra: list[Published] = []
        ready = self._ready(joined(batches), extra)
        total = Published()
        if self._options.atomic:
            for whole, rows in ready:
                for chunk in chunks(rows, expecting_rows(whole)):
                    total = total + self._publish_whole(chunk)
        elif (first := next(ready, None)) is not None:  # a task without rows needs no server
            total = self._publish_singly(rows for _, rows in chain([first], ready))
        return sum(extra, total)

    def leave_out(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Count the rows of batches in ``size``, and publish none. Blocks while Spark makes
        them."""
        for batch in joined(batches):
            self._normalised(batch)

    def _normalised(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._columns.normalise(batch, makes_ids=self._ids is not None)
        if self._options.commit_marker:
            self.size = self.size.plus(rows, self._columns.subject)
        return rows

    def _ready(
        self, batches: Iterable[pa.RecordBatch], extra: list[Published]
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Yield batches, each with its rows as messages. Blocks.

        What was published to find out where a subject leads is counted in ``extra`` instead.
        """
        options = self._options
        for batch in batches:
            rows = self._normalised(batch)
            limit = with_patience(
                options.link, "publishing", lambda js: shared(options.link).max_payload
            )
            self._columns.check_sizes(rows, limit)
            if self._ids is not None:
                ids = self._ids.column(rows, self._columns.subject)
                rows = without_source(rows).append_column("msg_id", ids)
            tried = self._destinations.look_at(rows)
            whole = batch
            if tried is not None:
                extra.append(Published(1, 0, tried[1]))
                others = [row for row in range(rows.num_rows) if row != tried[0]]
                rows, whole = rows.take(others), batch.take(others)
            if rows.num_rows:
                yield whole, rows

    # -- a chunk, as a whole -----------------------------------------------------------------------

    def _publish_whole(self, rows: pa.RecordBatch) -> Published:
        options = self._options

        def send(js: JetStream) -> int | None:
            try:
                return store_chunk(
                    js, rows, options.subject, options.publish_stream, options.publish_timeout
                )
            except Error as error:
                if has_stored_rows(error) or (
                    is_refused_expectation(error) and self._stored_at(rows, 0)
                ):
                    return None
                self._refuse_hopeless(rows, [(0, error)])
                raise

        first = with_patience(options.link, "publishing a chunk", send)
        if first is None:
            # A task that ran before had stored rows of it. Singly, each is recognised by its id.
            return self._publish_singly([rows])
        return Published(rows.num_rows, 0, first)

    # -- singly, many at a time --------------------------------------------------------------------

    def _publish_singly(self, batches: Iterable[pa.RecordBatch]) -> Published:
        link = self._options.link
        rows = TaskRows(batches, self._columns.subject)
        total = Published()
        while not rows.is_over:
            sent, failures = self._send(rows)
            total = total + sent
            for batch, failed in failures:
                total = total + self._repeat(batch, failed)
            if not (failures or rows.is_over):  # there was no link for publishTimeout
                with_patience(link, "publishing", lambda js: shared(link).flush())
        return total

    def _repeat(self, rows: pa.RecordBatch, failed: Failures) -> Published:
        """Publish rows again that were not acknowledged, until all are. Blocks."""
        total = Published()
        link = self._options.link
        patience = Deadline(link.server_unavailable_timeout)
        repeats = 0
        while True:
            if any(is_refused_expectation(error) for _, error in failed):
                total, failed = self._without_stored(rows, total, failed)
            if not failed:
                return total
            self._refuse_hopeless(rows, failed)
            if patience.expired and repeats >= self._options.publish_retries:
                raise self._failed(rows, failed)
            repeats += 1
            log.warning(
                "%s not acknowledged (%s); publishing again",
                counted(len(failed), "row was", "rows were"),
                failed[0][1],
            )
            rows = rows.take([index for index, _ in failed])
            time.sleep(patience.within(min(0.05 * repeats, 1.0)))
            again = TaskRows([rows], self._columns.subject)
            sent, failures = self._send(again)
            total = total + sent
            late = TimeoutError("other rows were not acknowledged", operation="publish")
            failed = [item for _, items in failures for item in items]
            failed += [(index, late) for index in again.untaken]
            if sent.stored:
                patience = Deadline(link.server_unavailable_timeout)
                repeats = 0

    def _send(self, rows: TaskRows) -> tuple[Published, list[tuple[pa.RecordBatch, Failures]]]:
        """Publish what is left of ``rows`` until some are not stored. Blocks.

        Returns what was stored, and what was not, by batch.
        """
        options = self._options

        def send(js: JetStream) -> tuple[Published, list[tuple[pa.RecordBatch, Failures]]]:
            api = api_of(js)
            try:
                report = bulk_publish(
                    api.port,
                    api,
                    rows,
                    timeout=None,
                    max_pending=options.max_inflight,
                    max_failed=0,
                    auto_ids=False,
                    expected_stream=options.publish_stream,
                    max_pending_bytes=options.max_inflight_bytes,
                    stall=options.publish_timeout,
                )
            except Error as error:
                window = rows.window
                if window is None or not is_transient(error):
                    raise
                stored, failures = rows.interrupted(error)
                return Published(stored, 0, window.first_seq), failures
            done = Published(report.stored, report.duplicates, report.first_seq)
            return done, rows.failures(report.failed)

        return with_patience(options.link, "publishing", send)

    # -- what failed -------------------------------------------------------------------------------

    def _refuse_hopeless(self, rows: pa.RecordBatch, failed: Failures) -> None:
        """Raise at once for a row that will never be stored."""
        for index, error in failed:
            if not (is_transient(error) and is_transient(error.__cause__ or error)):
                raise self._failed(rows, [(index, error)]) from None
        # Either no server is ready, or no stream takes the subject: the API knows. What can be
        # stored is stored sooner or later, so a subject without a stream becomes the first one.
        find_stream(self._options, self._columns.subject_of(rows, failed[0][0]))

    def _without_stored(
        self, rows: pa.RecordBatch, total: Published, failed: Failures
    ) -> tuple[Published, Failures]:
        """Count refused rows as duplicates that a task before this one had stored."""
        left: Failures = []
        for index, error in failed:
            at = self._stored_at(rows, index) if is_refused_expectation(error) else 0
            if at:
                total = total + Published(1, 1, at)
            else:
                left.append((index, error))
        return total, left

    def _stored_at(self, rows: pa.RecordBatch, index: int) -> int:
        """Return where a row with an expectation is stored already; 0 if it is not."""
        if "msg_id" not in rows.schema.names:
            return 0
        subject = self._columns.subject_of(rows, index)
        stream = self._options.publish_stream or find_stream(self._options, subject)
        headers, msg_id = (
            rows.column("headers")[index].as_py(),
            rows.column("msg_id")[index].as_py(),
        )
        return with_patience(
            self._options.link,
            f"looking for a row in stream {stream}",
            lambda js: stored_before(js, stream, subject, headers, msg_id),
        )

    def _failed(self, rows: pa.RecordBatch, failed: Failures) -> SparkSourceError:
        index, error = failed[0]
        codes = [
            code
            for kind, code in _CODES
            if isinstance(error, kind) or isinstance(error.__cause__, kind)
        ]
        return SparkSourceError(
            f"{len(failed)} row(s) were not acknowledged; the first goes to subject "
            f"{self._columns.subject_of(rows, index)!r}: {type(error).__name__}: {error}",
            code=codes[0] if codes else "JETSYNC_PUBLISH_FAILED",
        )
