"""The sink: rows become messages, and a task is done when every one is acknowledged.

A task that fails is run again by Spark and publishes the same rows again. With message ids (option
``dedup``) the server stores each row once, as long as that happens inside the stream's duplicate
window.
"""

# pyspark is optional, so its base classes are unknown where it is not installed.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.publishing import Published, RowPublisher, make_ids
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["JetStreamStreamWriter", "JetStreamWriter", "PublishedMessage"]

log = logging.getLogger("jetsync.spark")


class PublishedMessage(WriterCommitMessage):
    """What one task tells the driver: how many rows are stored, and how many were before."""

    def __init__(self, stored: int, duplicates: int) -> None:
        self.stored = stored
        self.duplicates = duplicates


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise SparkOptionError(
            "a stream can only be appended to; use mode('append') or outputMode('append')",
            code="JETSYNC_UNSUPPORTED_MODE",
        )


def _publish(publisher: RowPublisher, batches: Iterator[pa.RecordBatch]) -> PublishedMessage:
    total = Published()
    for batch in batches:
        if batch.num_rows:
            total = total + publisher.publish(batch)
    return PublishedMessage(total.stored, total.duplicates)


def _report(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = [item for item in messages if isinstance(item, PublishedMessage)]
    log.info(
        "%s: %d messages are stored, %d of them were before (%d of %d tasks)",
        what,
        sum(item.stored for item in done),
        sum(item.duplicates for item in done),
        len(done),
        len(messages),
    )


class JetStreamWriter(DataSourceArrowWriter):
    """Publishes a data frame. Holds options only; connects inside ``write``."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        _refuse_overwrite(overwrite)
        self._options = options
        self._columns = SinkColumns.check(schema, options)
        # One id per write: Spark makes the writer once and ships it to every task and retry.
        self.job = options.query_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish one partition; blocks until every row is acknowledged, else raises."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        ids = make_ids(self._options, self.job, "0", partition)
        return _publish(RowPublisher(self._options, self._columns, ids), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log what was done: every message is stored already."""
        _report("batch write", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log what was done: published messages cannot be taken back."""
        _report("aborted batch write (what was published stays)", messages)


class JetStreamStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the batches of a streaming query. Made anew for every batch and every commit."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        _refuse_overwrite(overwrite)
        self._options = options
        self._columns = SinkColumns.check(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish one partition of a batch; blocks until every row is acknowledged, else raises."""
        query, batch_id, partition = _streaming_task(self._options)
        ids = make_ids(self._options, query, batch_id, partition)
        return _publish(RowPublisher(self._options, self._columns, ids), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was done: every message is stored already."""
        _report(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was done: published messages cannot be taken back."""
        _report(f"aborted batch {batchId} (what was published stays)", messages)


def _streaming_task(options: WriteOptions) -> tuple[str, str, int]:
    """Return query id, batch id and partition of the running task.

    Spark does not hand them to a writer; they are in the task's local properties.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    query = options.query_id or (
        context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    )
    batch_id = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    if options.dedup in ("content", "position") and (query is None or batch_id is None):
        raise SparkSourceError(
            "Spark did not say which query and batch this task belongs to, so message ids cannot "
            "be made; use dedup=column with a msg_id column, or dedup=none",
            code="JETSYNC_NO_QUERY_ID",
        )
    return query or "", batch_id or "", context.partitionId() if context is not None else 0
