"""Small things for notebooks, ``foreachPartition`` and monitoring."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.offsets import Offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["lag", "publish_partition", "register"]

# Rows of foreachPartition are gathered into pieces of this many.
_CHUNK = 2_000


def register(spark: SparkSession) -> None:
    """Make ``format("jetstream")`` known to a session.

    Not needed where the package is installed in the Python environment of the driver: Spark finds
    it there by itself. Does not connect to any server.
    """
    from jetsync.spark.datasource import JetStreamDataSource

    spark.dataSource.register(JetStreamDataSource)


def lag(query: Any) -> dict[str, dict[str, int]]:
    """Return how far a streaming query is behind: ``{stream: {latest, end, behind}}``.

    Takes a running or ended ``StreamingQuery``, or one progress of it (object or mapping). Counts
    sequences, as of the last progress; empty before the first one. Does not connect.
    """
    progress = getattr(query, "lastProgress", query)
    found: dict[str, dict[str, int]] = {}
    for source in _field(progress, "sources") or ():
        end, latest = _offset(_field(source, "endOffset")), _offset(_field(source, "latestOffset"))
        if end is None:
            continue
        for stream, mark in end.marks.items():
            newest = latest.marks.get(stream) if latest is not None else None
            head = max(mark.seq, newest.seq if newest is not None else 0)
            found[stream] = {"latest": head, "end": mark.seq, "behind": head - mark.seq}
    return found


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def _offset(value: Any) -> Offset | None:
    """Read an offset out of a progress; None if it belongs to another kind of source."""
    try:
        return Offset.from_dict(json.loads(value) if isinstance(value, str) else value)
    except (SparkSourceError, ValueError):
        return None


def publish_partition(
    *,
    subject: str | None = None,
    subject_col: str = "subject",
    data_col: str = "data",
    msg_id: str = "content",
    msg_id_col: str | None = None,
    job_id: str | None = None,
    **options: str,
) -> Callable[[Iterable[Any]], None]:
    """Return a function for ``df.foreachPartition`` that publishes every row.

    ``subject`` is one fixed subject; otherwise ``subject_col`` names the column. ``msg_id`` is
    ``content`` (a repeated task stores nothing twice), ``column`` (ids are in ``msg_id_col``) or
    ``none``. ``job_id`` must differ between jobs whose equal rows shall both be stored; by default
    each call of this function is a job. Further keywords are options of the sink (``servers=...``).

    The returned function blocks until every row is acknowledged, and raises otherwise, so that
    Spark repeats the task. ``df.write.format("jetstream")`` is about ten times faster: it never
    makes Python objects of rows.
    """
    import uuid

    from jetsync.spark.write_options import WriteOptions

    if msg_id not in ("content", "column", "none"):
        raise SparkOptionError(
            f"msg_id must be content, column or none, got {msg_id!r}", code="JETSYNC_INVALID_OPTION"
        )
    if msg_id == "column" and msg_id_col is None:
        raise SparkOptionError("msg_id='column' needs msg_id_col", code="JETSYNC_MISSING_OPTION")
    given = {**options, "dedup": msg_id}
    if subject is not None:
        given["subject"] = subject
    checked = WriteOptions.parse(given)
    columns = {"data": data_col}
    if subject is None:
        columns["subject"] = subject_col
    if msg_id == "column" and msg_id_col is not None:
        columns["msg_id"] = msg_id_col
    job = job_id or uuid.uuid4().hex

    def publish(rows: Iterable[Any]) -> None:
        _publish_rows(checked, columns, job, iter(rows))

    return publish


def _publish_rows(options: Any, columns: dict[str, str], job: str, rows: Iterator[Any]) -> None:
    import pyarrow as pa
    from pyspark import TaskContext

    from jetsync.spark.publishing import RowPublisher, make_ids
    from jetsync.spark.sink_columns import SinkColumns

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    publisher = RowPublisher(
        options,
        SinkColumns(subject=options.subject, headers=False, msg_id="msg_id" in columns),
        make_ids(options, job, "0", partition),
    )
    while chunk := list(itertools.islice(rows, _CHUNK)):
        arrays = {name: pa.array(_values(chunk, column)) for name, column in columns.items()}
        publisher.publish(pa.RecordBatch.from_pydict(arrays))


def _values(rows: list[Any], column: str) -> list[Any]:
    """Return one column; text and bytes-like values as they are."""
    values = [row[column] for row in rows]
    return [bytes(value) if isinstance(value, bytearray) else value for value in values]
