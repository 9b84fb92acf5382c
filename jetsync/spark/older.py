"""Streaming on PySpark 4.0 and 4.1: offsets without limits, and rows instead of Arrow.

There Spark asks for the latest offset without saying where a batch begins. A process knows that
from its earlier answer or from the batch that it planned last; the first batch of a process has no
limit.
"""

# pyspark is optional, so its base classes are unknown where it is not installed.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jetsync.spark.offsets import Offset, StreamOffset
from jetsync.spark.sentences import sentence_first
from jetsync.spark.stream_reader import JetStreamStreamReader
from jetsync.spark.versions import ReadAllAvailable, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

__all__ = ["OlderStreamReader", "arrow_batches"]

ROWS = 10_000
"""Rows of an Arrow batch, as in newer versions."""


class OlderStreamReader(JetStreamStreamReader):
    """The streaming reader for PySpark 4.0 and 4.1."""

    _position: dict[str, Any] | None = None
    _answered = False

    @sentence_first
    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins; always the same in one process. Blocks."""
        first = super().initialOffset()
        self._position = self._position or first
        return first

    @sentence_first
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the end of the next batch; the last one again if there is nothing to read.

        Blocks. The first answer of a process is the head of the streams, whatever
        maxOffsetsPerTrigger says: a run with ``availableNow`` asks only once, and after a restart
        Spark does not tell where the checkpoint stands.
        """
        limit = self.getDefaultReadLimit() if self._answered else ReadAllAvailable()
        if self._position is None:
            streams = self._ask_each(lambda _, head: StreamOffset(head.last_seq, head.created))
            self._position = Offset(streams, {}, self._filters).to_dict()
        else:
            self._position = super().latestOffset(self._position, limit)
        self._answered = True
        return self._position

    @sentence_first
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut the batch between two offsets into ranges. Blocks; runs on the driver."""
        self._position = end
        return super().partitions(start, end)


def arrow_batches(items: Iterable[Any], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Return what a task has to write as Arrow batches, be they that already or rows."""
    import pyarrow as pa

    found = iter(items)
    first = next(found, None)
    if first is None:
        return
    whole = itertools.chain([first], found)
    if isinstance(first, pa.RecordBatch):
        yield from whole
        return
    target = arrow_schema(schema)
    while rows := list(itertools.islice(whole, ROWS)):
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([_plain(row[index]) for row in rows], field.type)
                for index, field in enumerate(target)
            ],
            schema=target,
        )


def _plain(value: Any) -> Any:
    """Return a value as Arrow takes it: a map is a list of pairs there."""
    return list(value.items()) if isinstance(value, dict) else value
