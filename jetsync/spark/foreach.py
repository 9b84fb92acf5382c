"""Publishing from inside tasks: ``foreachPartition``, ``mapInArrow``, ``mapInPandas``, UDFs.

The same publishing as the sink's, with its options; here the rows may be Python objects.
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.sentences import sentence_first
from jetsync.spark.task import running_task

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync.spark.publishing import RowPublisher

__all__ = ["TaskPublisher", "counts_like", "publish_partition", "publisher"]

# Python rows are gathered into pieces of this many.
_CHUNK = 2_000


class TaskPublisher:
    """Gathers messages and publishes them in pieces. Made by :func:`publisher`. For one thread."""

    def __init__(self, rows: RowPublisher, *, own_ids: bool) -> None:
        self._rows = rows
        self._own_ids = own_ids
        self._waiting: list[tuple[str, bytes | str, Any, str | None]] = []
        self.stored: int = 0
        """How many messages are in the stream."""
        self.duplicates: int = 0
        """How many of them were there before."""

    def publish(
        self,
        subject: str,
        data: bytes | str = b"",
        *,
        headers: Mapping[str, Any] | None = None,
        msg_id: str | None = None,
    ) -> None:
        """Add a message of ``data`` and ``headers`` to ``subject``; every 2,000 are published.
        Blocks then, and raises like :meth:`flush`: SparkSourceError.

        ``msg_id`` is your id of it; without one it gets a new one, whatever ``headers`` say. Not
        together with ``job_id``.
        """
        if msg_id is not None and not self._own_ids:
            raise SparkOptionError(
                "with job_id the ids are made of the content; leave msg_id out",
                code="JETSYNC_OPTION_CONFLICT",
            )
        if self._own_ids and msg_id is None:
            msg_id = uuid.uuid4().hex
        self._waiting.append((subject, data, headers, msg_id))
        if len(self._waiting) >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        """Publish what was added and wait until all of it is confirmed.

        Raises ``SparkSourceError`` otherwise: let the task fail, so that Spark repeats it.
        """
        import pyarrow as pa

        if not self._waiting:
            return
        subjects, data, headers, ids = zip(*self._waiting, strict=True)
        self._waiting = []
        columns = {
            "subject": pa.array(subjects, pa.string()),
            "data": _data(data),
            "headers": _headers(headers),
        }
        if self._own_ids:
            columns["msg_id"] = pa.array(ids, pa.string())
        done = self._rows.publish(pa.RecordBatch.from_pydict(columns))
        self.stored += done.stored
        self.duplicates += done.duplicates


@contextlib.contextmanager
def publisher(
    options: Mapping[str, str] | None = None, *, job_id: str | None = None
) -> Iterator[TaskPublisher]:
    """Give a publisher for the time of a ``with`` block, for use inside a task.

    Takes the options of the sink, but for columns and ids: every message names its subject. The
    end of the block publishes the rest and returns when every message is confirmed; an exception in
    the block drops what was not published yet, since the task will be repeated.

    With ``job_id`` ids are made of the content, partition and this name: a repeated task stores
    nothing twice, and two jobs that shall both store equal messages need two names. Without it a
    message has the id it is given, or a new one, and a repeated task may store it again. Raises
    SparkOptionError for options that cannot be, and as :meth:`TaskPublisher.flush` at the end.
    """
    from jetsync.spark.publishing import RowPublisher, make_ids
    from jetsync.spark.sink_columns import SinkColumns
    from jetsync.spark.write_options import WriteOptions

    dedup = "column" if job_id is None else "content"
    checked = WriteOptions.parse({**(options or {}), "dedup": dedup})
    names = {"subject", "data", "headers"} | ({"msg_id"} if job_id is None else set())
    ids = make_ids(checked, *_job(job_id or "", True), _partition())
    made = TaskPublisher(
        RowPublisher(checked, SinkColumns(frozenset(names)), ids), own_ids=job_id is None
    )
    yield made
    made.flush()


def publish_partition(
    *,
    subject: str | None = None,
    subject_col: str | int = "subject",
    data_col: str | int = "data",
    headers_col: str | int | None = None,
    msg_id: str = "content",
    msg_id_col: str | int | None = None,
    job_id: str | None = None,
    **options: str,
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function for ``foreachPartition``, ``mapInArrow`` or ``mapInPandas``.

    It publishes every row of a partition, be they Rows, tuples, record batches or pandas frames.
    ``subject`` is one fixed subject; otherwise ``subject_col`` names the column (a number is its
    position), as ``data_col`` and ``headers_col`` do. ``msg_id`` is ``content`` (a repeated task
    stores nothing twice), ``column`` (ids are in ``msg_id_col``) or ``none``. ``job_id`` must
    differ between jobs whose equal rows shall both be stored; by default each call of this function
    is a job, and in ``foreachBatch`` each batch of the query, so that a batch can be repeated.
    Further keywords are options of the sink (``servers=...``).

    The returned function blocks until every row is acknowledged, and raises SparkSourceError
    otherwise, so that Spark repeats the task. Raises SparkOptionError for options that cannot be.
    With ``mapInArrow`` and ``mapInPandas`` (and the schema ``"stored bigint, duplicates bigint"``)
    it gives one row of counts per partition. ``df.write.format("jetstream")`` is faster: it never
    makes Python objects of rows.
    """
    from jetsync.spark.write_options import WriteOptions

    if msg_id not in ("content", "column", "none"):
        raise SparkOptionError(
            f"msg_id must be content, column or none, got {msg_id!r}", code="JETSYNC_INVALID_OPTION"
        )
    if msg_id == "column" and msg_id_col is None:
        raise SparkOptionError("msg_id='column' needs msg_id_col", code="JETSYNC_MISSING_OPTION")
    given = {**options, "dedup": msg_id}
    columns: dict[str, str | int] = {"data": data_col}
    if subject is not None:
        given["subject"] = subject
    else:
        columns["subject"] = subject_col
    if headers_col is not None:
        columns["headers"] = headers_col
    if msg_id == "column" and msg_id_col is not None:
        columns["msg_id"] = msg_id_col
    checked = WriteOptions.parse(given)
    job = job_id or uuid.uuid4().hex

    @sentence_first
    def publish(items: Iterable[Any]) -> Iterator[Any]:
        from jetsync.spark.publishing import RowPublisher, make_ids
        from jetsync.spark.sink_columns import SinkColumns

        rows = RowPublisher(
            checked,
            SinkColumns(frozenset(columns), checked.subject),
            make_ids(checked, *_job(job, job_id is not None), _partition()),
        )
        example = None

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal example
            for item, batch in _batches(iter(items), columns):
                example = item
                yield batch

        total = rows.publish_all(batches())
        return counts_like(example, stored=total.stored, duplicates=total.duplicates)

    return publish


def counts_like(item: Any, **counts: int) -> Iterator[Any]:
    """Return one row of numbers in the form of ``item``: a record batch or a pandas frame.

    Nothing for any other item: Spark ignores what the function of ``foreachPartition`` returns.
    """
    import pyarrow as pa

    if not isinstance(item, pa.RecordBatch) and not _is_frame(item):
        return iter(())
    row = pa.RecordBatch.from_pydict(
        {name: pa.array([number], pa.int64()) for name, number in counts.items()}
    )
    return iter([row if isinstance(item, pa.RecordBatch) else row.to_pandas()])


def _partition() -> int:
    return running_task().partition


def _job(job: str, is_named: bool) -> tuple[str, str]:
    """Return query and batch for ids; in ``foreachBatch`` those of the query unless it is named."""
    task = running_task()
    if task.batch_id is None:
        return job, "0"
    return (job if is_named else task.query or job), task.batch_id


def _batches(
    items: Iterator[Any], columns: Mapping[str, str | int]
) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Return record batches with our column names, each with an item that it was made of."""
    import pyarrow as pa

    for item in items:
        rows: Any = item
        if not isinstance(item, pa.RecordBatch) and not _is_frame(item):
            rows = [item, *itertools.islice(items, _CHUNK - 1)]
        found = {name: _column(name, _taken(rows, place)) for name, place in columns.items()}
        yield item, pa.RecordBatch.from_pydict(found)


def _taken(rows: Any, place: str | int) -> Any:
    """Return one column of a record batch, a pandas frame or a list of rows."""
    try:
        if isinstance(rows, list):
            return [row[place] for row in rows]
        if not _is_frame(rows):
            return rows.column(place)
        return rows[place] if isinstance(place, str) else rows.iloc[:, place]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise SparkSourceError(
            f"the rows have no column {place!r}: correct subject_col, data_col, headers_col or "
            "msg_id_col of publish_partition",
            code="JETSYNC_MISSING_COLUMN",
        ) from error


def _is_frame(item: Any) -> bool:
    return hasattr(item, "iloc")


def _column(name: str, values: Any) -> pa.Array:
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    if name == "data":
        return _data(values)
    return _headers(values) if name == "headers" else pa.array(values, pa.string())


def _data(values: Iterable[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array(
        [value.encode() if isinstance(value, str) else value for value in values],
        pa.binary(),
        from_pandas=True,
    )


def _headers(values: Iterable[Any]) -> pa.Array:
    """Return mappings from names to a value or a list of them as a map column."""
    import pyarrow as pa

    kind = pa.map_(pa.string(), pa.list_(pa.binary()))
    return pa.array([_entries(value) for value in values], kind)


def _entries(headers: Any) -> list[tuple[str, list[bytes]]]:
    if not headers:
        return []
    return [
        (name, [_bytes(one) for one in (value if isinstance(value, (list, tuple)) else [value])])
        for name, value in dict(headers).items()
    ]


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
