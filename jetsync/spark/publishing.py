"""Publishing the rows of one task: acknowledged all, or an error that says which were not."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jetsync._deadline import Deadline
from jetsync.errors import APIError, NotStoredError, TimeoutError
from jetsync.spark.connection import is_transient, with_patience
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.ids import ContentIds, PositionIds, short_hash
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync import JetStream, PublishReport

__all__ = ["Published", "RowPublisher", "check_target", "make_ids"]

log = logging.getLogger("jetsync.spark")

NO_STREAM_FOR_SUBJECT = 10059

Failures = list[tuple[int, Exception]]


class Ids(Protocol):
    """Makes the message ids of a task, batch after batch."""

    def column(self, batch: pa.RecordBatch, subject: str | None) -> pa.Array: ...


def make_ids(options: WriteOptions, query: str, batch_id: str, partition: int) -> Ids | None:
    """Return what makes the ids of one task, or None if they are in a column or not wanted."""
    prefix = f"{short_hash(query)}.{batch_id}.{partition}"
    if options.dedup == "content":
        return ContentIds(prefix)
    if options.dedup == "position":
        return PositionIds(prefix)
    return None


@dataclass(frozen=True)
class Published:
    """How many rows are in the stream, and how many of them were there before."""

    stored: int = 0
    duplicates: int = 0

    def __add__(self, other: Published) -> Published:
        return Published(self.stored + other.stored, self.duplicates + other.duplicates)


class RowPublisher:
    """Publishes the record batches of one task. Not thread-safe: a task has one."""

    def __init__(self, options: WriteOptions, columns: SinkColumns, ids: Ids | None) -> None:
        self._options = options
        self._columns = columns
        self._ids = ids

    def publish(self, batch: pa.RecordBatch) -> Published:
        """Publish a batch and wait for every acknowledgement.

        Rows without one are published again, with the same id. Raises ``SparkSourceError`` when a
        row cannot be stored, or not within ``publishRetries`` and ``serverUnavailableTimeout``.
        """
        rows = self._columns.normalise(batch)
        if self._ids is not None:
            rows = rows.append_column("msg_id", self._ids.column(rows, self._columns.subject))
        total = Published()
        link = self._options.link
        patience = Deadline(link.server_unavailable_timeout)
        repeats = 0
        while True:
            report = self._send(rows)
            total = total + Published(report.stored, report.duplicates)
            failed = [*report.failed, *_never_sent(rows, report)]
            if not failed:
                return total
            self._refuse_hopeless(rows, failed)
            if report.stored:
                patience = Deadline(link.server_unavailable_timeout)
                repeats = 0
            elif patience.expired and repeats >= self._options.publish_retries:
                raise self._failed(rows, failed)
            repeats += 1
            log.warning(
                "%d of %d rows were not acknowledged (%s); publishing them again",
                len(failed),
                rows.num_rows,
                failed[0][1],
            )
            rows = rows.take([index for index, _ in failed])
            time.sleep(patience.within(min(0.05 * repeats, 1.0)))

    def _send(self, rows: pa.RecordBatch) -> PublishReport:
        columns = self._columns
        # publishTimeout is meant for one acknowledgement: each window of them gets as long.
        windows = -(-rows.num_rows // self._options.max_inflight)
        budget = self._options.publish_timeout * windows

        def send(js: JetStream) -> PublishReport:
            return js.publish_arrow(
                rows,
                subject=columns.subject if columns.subject is not None else "subject",
                data="data",
                headers="headers" if columns.headers else None,
                msg_id="msg_id" if "msg_id" in rows.schema.names else None,
                timeout=budget,
                max_pending=self._options.max_inflight,
                expected_stream=self._options.publish_stream,
            )

        return with_patience(self._options.link, "publishing", send)

    def _refuse_hopeless(self, rows: pa.RecordBatch, failed: Failures) -> None:
        """Raise at once for a row that will never be stored."""
        for index, error in failed:
            nobody = isinstance(error, NotStoredError) and error.__cause__ is None
            if not (nobody or is_transient(error.__cause__ or error)):
                raise self._failed(rows, [(index, error)]) from error
        # Either no server is ready, or no stream takes the subject: the API knows. What can be
        # stored is stored sooner or later, so a subject without a stream becomes the first one.
        find_stream(self._options, self._subject(rows, failed[0][0]))

    def _subject(self, rows: pa.RecordBatch, index: int) -> str:
        if self._columns.subject is not None:
            return self._columns.subject
        return str(rows.column("subject")[index].as_py())

    def _failed(self, rows: pa.RecordBatch, failed: Failures) -> SparkSourceError:
        index, error = failed[0]
        return SparkSourceError(
            f"{len(failed)} row(s) were not acknowledged; the first goes to subject "
            f"{self._subject(rows, index)!r}: {type(error).__name__}: {error}",
            code="JETSYNC_PUBLISH_FAILED",
        )


def _never_sent(rows: pa.RecordBatch, report: PublishReport) -> Failures:
    """Return the rows at the end that a publish out of time did not come to."""
    settled = report.stored + len(report.failed)
    late = TimeoutError("the time was over before the row was sent", operation="publish_arrow")
    return [(index, late) for index in range(settled, rows.num_rows)]


def find_stream(options: WriteOptions, subject: str) -> str:
    """Return the stream that takes a subject; raises ``JETSYNC_NO_SUBJECT`` if none does."""

    def ask(js: JetStream) -> str:
        try:
            return js.stream_name_by_subject(subject)
        except APIError as error:
            if error.err_code != NO_STREAM_FOR_SUBJECT:
                raise
            raise SparkSourceError(
                f"no stream takes subject {subject!r}; create one first, or correct the subject",
                code="JETSYNC_NO_SUBJECT",
            ) from error

    return with_patience(options.link, f"looking for the stream of {subject}", ask)


def check_target(options: WriteOptions) -> None:
    """Look at the stream that is written to, while planning. Blocks; runs on the driver.

    Only possible if option ``subject`` or ``publishStream`` names it; subjects in a column are
    checked when they are published.
    """
    stream = options.publish_stream
    if options.subject is not None:
        found = find_stream(options, options.subject)
        if stream is not None and found != stream:
            raise SparkSourceError(
                f"subject {options.subject!r} belongs to stream {found!r}, not to {stream!r}",
                code="JETSYNC_WRONG_STREAM",
            )
        stream = found
    if stream is None:
        return
    window = with_patience(
        options.link, f"looking at stream {stream}", lambda js: duplicate_window(js, stream)
    )
    if options.dedup == "none" or window >= options.min_duplicate_window:
        return
    text = (
        f"stream {stream!r} forgets message ids after {window:g} s, minDuplicateWindow is "
        f"{options.min_duplicate_window:g} s: a task that is repeated later stores its rows twice"
    )
    if options.small_window_fails:
        raise SparkSourceError(text, code="JETSYNC_DUPLICATE_WINDOW")
    log.warning("%s", text)


def duplicate_window(js: JetStream, stream: str) -> float:
    """Return for how many seconds a stream remembers message ids. Blocks."""
    try:
        return js.stream(stream).cached_info.config.duplicate_window or 0.0
    except APIError as error:
        if error.err_code != NO_STREAM_FOR_SUBJECT:
            raise
        raise SparkSourceError(
            f"there is no stream {stream!r}; create it first, or correct option 'publishStream'",
            code="JETSYNC_STREAM_NOT_FOUND",
        ) from error
