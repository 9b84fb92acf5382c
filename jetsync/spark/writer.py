"""The sink: rows become messages, and a task is done when every one is acknowledged.

A task that fails is run again by Spark and publishes the same rows again. With message ids (option
``dedup``) the server stores each row once, as long as that happens inside the stream's duplicate
window; that holds for a batch that is repeated inside ``foreachBatch``, too. With option
``commitMarker`` a batch that was published completely is never published again.
"""

# pyspark is optional, so its base classes are unknown where it is not installed.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from jetsync._counted import counted
from jetsync._log import Log
from jetsync.spark.connection import with_patience
from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.marker import (
    Marker,
    Size,
    check_repeated,
    is_done,
    make_bucket,
    mark_done,
    read_marker,
    sum_sizes,
)
from jetsync.spark.older import arrow_batches
from jetsync.spark.publishing import Published, RowPublisher, make_ids
from jetsync.spark.sentences import sentence_first
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.target import Target, look_at_target
from jetsync.spark.task import running_task
from jetsync.spark.versions import DataSourceStreamArrowWriter
from jetsync.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from jetsync import JetStream

__all__ = ["JetStreamStreamWriter", "JetStreamWriter", "PublishedMessage"]

log: Log = Log("jetsync.spark")


@dataclass(frozen=True)
class PublishedMessage(WriterCommitMessage):
    """The message of one task to the driver. ``skipped``: the batch was published before,
    completely."""

    published: Published
    query: str
    checkpoint: str = ""
    """The id that Spark gave the query, which its checkpoint holds."""
    size: Size = field(default_factory=Size)
    skipped: bool = False


class _Sink:
    """The common base of writing a batch job and a streaming query."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite and not options.purge_on_overwrite:
            raise SparkOptionError(
                "a stream can only be appended to; use mode('append') or outputMode('append'), or "
                "option onOverwrite=purge, which purges older messages after a write",
                code="JETSYNC_UNSUPPORTED_MODE",
            )
        self._options = options
        self._schema = schema
        self._columns = SinkColumns.check(schema, options)
        self._overwrite = overwrite
        self._target: Target | None = None

    def look_at_target(self) -> None:
        """Check on the driver that the stream can do what is asked. Blocks."""
        self._target = look_at_target(self._options, self._columns)

    def _publish(
        self,
        batches: Iterator[pa.RecordBatch],
        query: str,
        batch_id: str,
        partition: int,
        checkpoint: str = "",
    ) -> PublishedMessage:
        publisher = self._publisher(query, batch_id, partition)
        total = publisher.publish_all(batches)
        return PublishedMessage(total, query, checkpoint, publisher.size)

    def _publisher(self, query: str, batch_id: str, partition: int) -> RowPublisher:
        ids = make_ids(self._options, query, batch_id, partition)
        return RowPublisher(self._options, self._columns, ids)

    def _finish(self, what: str, messages: Sequence[Any]) -> Published:
        """Purge what an overwriting write replaces; return what was published by all tasks."""
        total = _total(messages)
        target = self._target
        if self._overwrite and target is not None and not any(item.skipped for item in messages):

            def purge(js: JetStream) -> int:
                return js.stream(target.stream).purge(
                    seq=total.first_seq or None, subject=self._options.subject
                )

            with_patience(self._options.link, f"purging stream {target.stream}", purge)
        _report(what, messages)
        return total


def _total(messages: Sequence[Any]) -> Published:
    done = [item for item in messages if isinstance(item, PublishedMessage)]
    return sum((item.published for item in done), Published())


def _report(what: str, messages: Sequence[Any]) -> None:
    total = _total(messages)
    log.info(
        "%s: %s stored, %d of them before (%d of %s)",
        what,
        counted(total.stored, "message is", "messages are"),
        total.duplicates,
        sum(item is not None for item in messages),
        counted(len(messages), "task"),
    )


class JetStreamWriter(_Sink, DataSourceArrowWriter):
    """Publishes a data frame. Holds options only; connects inside ``write``."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        if options.commit_marker:
            raise SparkOptionError(
                "option commitMarker is for streaming queries: batches of a job have no number",
                code="JETSYNC_UNSUPPORTED_OPTION",
            )
        # One id per write: Spark makes the writer once and ships it to every task and retry.
        self.job: str = options.query_id or uuid.uuid4().hex

    @sentence_first
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish one partition; blocks until every row is acknowledged, else raises.

        In ``foreachBatch`` the write belongs to the query's batch, so that the batch can be
        repeated.
        """
        task = running_task()
        if task.batch_id is None:
            return self._publish(iterator, self.job, "0", task.partition)
        query = self._options.query_id or task.query or self.job
        return self._publish(iterator, query, task.batch_id, task.partition)

    @sentence_first
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log what was done: every message is stored already. Purge what was overwritten."""
        self._finish("batch write", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log what was done: published messages cannot be taken back."""
        _report("aborted batch write (what was published stays)", messages)


class JetStreamStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """Publishes the batches of a streaming query. Made anew for every batch and every commit."""

    def look_at_target(self) -> None:
        """Check that the stream can do what is asked; make the bucket of markers. Blocks."""
        super().look_at_target()
        if self._options.commit_marker:
            make_bucket(self._options.link, self._target.replicas if self._target else 1)

    @sentence_first
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish one partition of a batch; blocks until every row is acknowledged, else raises."""
        options = self._options
        batches = arrow_batches(iterator, self._schema)
        task = running_task()
        query = options.query_id or task.query
        needed = options.dedup in ("content", "position") or options.commit_marker
        if needed and (query is None or task.batch_id is None):
            raise SparkSourceError(
                "Spark did not say which query and batch this task belongs to, so neither message "
                "ids nor the commit marker can be made; use dedup=column with a msg_id column, or "
                "dedup=none, without commitMarker",
                code="JETSYNC_NO_QUERY_ID",
            )
        query, batch_id = query or "", task.batch_id or ""
        checkpoint = task.query or ""
        if options.commit_marker:
            done = read_marker(options.link, query)
            if done is not None and is_done(done, query, checkpoint, int(batch_id)):
                publisher = self._publisher(query, batch_id, task.partition)
                publisher.leave_out(batches)
                size = publisher.size
                return PublishedMessage(Published(), query, checkpoint, size, skipped=True)
        return self._publish(batches, query, batch_id, task.partition, checkpoint)

    @sentence_first
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was done, purge what was overwritten, set the commit marker. May block."""
        self._finish(f"batch {batchId}", messages)
        if not self._options.commit_marker:
            return
        done = [item for item in messages if isinstance(item, PublishedMessage)]
        size = sum_sizes(item.size for item in done)
        for query, checkpoint in {(item.query, item.checkpoint) for item in done}:
            note = Marker(batchId, checkpoint, size)
            if any(item.skipped for item in done):
                check_repeated(self._options.link, query, note)
            else:
                mark_done(self._options.link, query, note)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was done: published messages cannot be taken back."""
        _report(f"aborted batch {batchId} (what was published stays)", messages)
