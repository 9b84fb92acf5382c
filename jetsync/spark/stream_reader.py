"""Streaming reads: offsets on the driver, ranges on the executors.

One long-lived process on the driver calls everything here but ``read``. Spark ends a query on the
first exception, calls ``initialOffset`` more than once, may never call ``stop``, and asks for the
latest offset in a tight loop when there is nothing to do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from jetsync.spark.connection import with_patience
from jetsync.spark.offsets import Mark, Offset
from jetsync.spark.positions import (
    Head,
    check_available,
    first_at_or_after,
    read_head,
    resolve_start,
)
from jetsync.spark.ranges import SequenceRange, limit_heads, split_ranges
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.reader import RangePartition, read_partition
from jetsync.spark.schema import check_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from jetsync import JetStream

__all__ = ["JetStreamStreamReader"]

T = TypeVar("T")
log = logging.getLogger("jetsync.spark")


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams in micro-batches. Picklable; what it remembers serves its own process only."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema
        self._initial: dict[str, Any] | None = None
        self._heads: dict[str, Head] = {}
        self._asked_at = float("-inf")
        self._frozen: dict[str, Mark] | None = None
        # Per stream: nothing that passes the filters lies up to here, seen from the last start.
        self._scanned: dict[str, Mark] = {}
        self._last_batch_at = time.monotonic()

    # -- offsets (driver) ----------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins; always the same in one process. Blocks."""
        if self._initial is None:
            heads = self._ask_heads()
            self._initial = Offset.initial(
                {name: self._resolve_start(head) for name, head in heads.items()}
            ).to_dict()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark hands back to ``latestOffset``."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch, or ``start`` itself if there is nothing to read.

        Blocks up to ``pollInterval`` when asked again too soon, and up to
        ``serverUnavailableTimeout`` while no server answers. Raises if messages were lost.
        """
        offset = Offset.from_dict(start)
        heads = self._rate_limited_heads()
        begins, jumps = self._begins(offset, heads)
        targets = {name: max(begins[name], self._target(heads[name])) for name in heads}
        ends = self._limited(begins, targets, limit)
        ends = self._skip_empty(begins, ends, jumps)
        marks = {name: Mark(ends[name], heads[name].created) for name in heads}
        if marks == dict(offset.marks):
            return start
        self._last_batch_at = time.monotonic()
        return offset.advanced(marks, jumps).to_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the head of the streams as last seen; Spark shows it in the progress."""
        if not self._heads:
            return None
        return Offset(
            {name: Mark(head.last_seq, head.created) for name, head in self._heads.items()}
        ).to_dict()

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the head: this run reads no further. Blocks."""
        self._frozen = {
            name: Mark(head.last_seq, head.created) for name, head in self._ask_heads().items()
        }

    # -- batches -------------------------------------------------------------------------------

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """Cut the batch between two offsets into ranges. Blocks; runs on the driver."""
        before, after = Offset.from_dict(start), Offset.from_dict(end)
        ranges = []
        for name, mark in after.marks.items():
            begin = _batch_begin(before, after, name)
            if begin >= mark.seq:
                continue
            head = self._patiently(lambda js, name=name: read_head(js, name), name)
            first = check_available(head, mark.created, begin + 1, self._options)
            if head.created == mark.created:
                ranges.append(SequenceRange(name, mark.created, first, mark.seq))
        pieces = split_ranges(
            ranges,
            max_records=self._options.max_records_per_partition,
            min_partitions=self._options.min_partitions,
        )
        return [RangePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition on an executor."""
        return read_partition(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: positions live in the checkpoint."""

    def stop(self) -> None:
        """Do nothing: the process goes away, and nothing durable was made."""

    # -- helpers -------------------------------------------------------------------------------

    def _patiently(self, action: Callable[[JetStream], T], stream: str) -> T:
        return with_patience(self._options.link, f"planning {stream}", action)

    def _ask_heads(self) -> dict[str, Head]:
        self._heads = {
            name: self._patiently(lambda js, name=name: read_head(js, name), name)
            for name in self._options.streams
        }
        self._asked_at = time.monotonic()
        return self._heads

    def _rate_limited_heads(self) -> dict[str, Head]:
        wait = self._asked_at + self._options.poll_interval - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        return self._ask_heads()

    def _resolve_start(self, head: Head) -> Mark:
        position = self._options.starting[head.stream]
        seq = self._patiently(
            lambda js: resolve_start(js, head, position, self._options), head.stream
        )
        return Mark(seq, head.created)

    def _target(self, head: Head) -> int:
        """Return how far this run may read: the head, or the frozen one of AvailableNow."""
        frozen = self._frozen.get(head.stream) if self._frozen is not None else None
        if frozen is None or frozen.created != head.created:
            return head.last_seq if self._frozen is None else 0
        return min(head.last_seq, frozen.seq)

    def _begins(
        self, offset: Offset, heads: Mapping[str, Head]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return where the next batch begins, and for which streams that is not their mark."""
        begins: dict[str, int] = {}
        jumps: dict[str, int] = {}
        for name, head in heads.items():
            mark = offset.marks.get(name)
            if mark is None:
                # A stream that was added to the options of an existing query.
                begins[name] = jumps[name] = self._resolve_start(head).seq
                continue
            scanned = self._scanned.get(name)
            known = mark.seq
            if scanned is not None and scanned.created == mark.created:
                known = max(known, scanned.seq)
            first = check_available(head, mark.created, known + 1, self._options)
            begins[name] = mark.seq
            if head.created != mark.created or first > known + 1 or head.first_seq > mark.seq + 1:
                begins[name] = first - 1
                if begins[name] != mark.seq or head.created != mark.created:
                    jumps[name] = begins[name]
            self._check_not_backwards(head, mark)
        return begins, jumps
