"""Batch reads: the whole range is fixed while planning, each task reads its part."""

# pyspark is optional, so its base classes are unknown where it is not installed.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from jetsync.spark.connection import with_each, with_patience
from jetsync.spark.delivery import needs_direct
from jetsync.spark.memory import keep_freed_memory
from jetsync.spark.positions import (
    check_available,
    check_filters,
    head_of,
    open_stream,
    resolve_end,
    resolve_start,
    stream_names,
    warn_of_no_streams,
)
from jetsync.spark.range_read import read_range
from jetsync.spark.ranges import SequenceRange, split_ranges
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.schema import Layout, check_schema
from jetsync.spark.sentences import sentence_first

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from jetsync import JetStream

__all__ = ["JetStreamReader", "RangePartition", "read_partition"]


class RangePartition(InputPartition):
    """The part of a read that one task does."""

    def __init__(self, wanted: SequenceRange) -> None:
        super().__init__(wanted)
        self.range = wanted


def read_partition(
    options: ReadOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Read one partition on an executor. Blocks while rows are awaited."""
    if not isinstance(partition, RangePartition):
        # Spark makes up one partition without a range when there is nothing to read.
        return iter(())
    keep_freed_memory()
    layout = Layout(schema, include_headers=options.include_headers, bucket=options.bucket)
    wanted = partition.range
    if wanted.filters:
        options = replace(options, filter_subjects=wanted.filters)
    return read_range(options, layout, wanted)


class JetStreamReader(DataSourceReader):
    """Reads a fixed part of one or more streams. Holds options only; connects inside the calls."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema, bucket=options.bucket is not None)
        self._options = options
        self._schema = schema

    @sentence_first
    def partitions(self) -> list[InputPartition]:
        """Fix the range of each stream and cut it into pieces. Blocks; runs on the driver."""
        found = with_each(self._options.link, "planning", self._names(), self._range).values()
        pieces = split_ranges(
            [wanted for wanted, _ in found],
            max_records=self._options.max_records_per_partition,
            min_partitions=self._options.min_partitions,
            # Ranges with many holes get fewer tasks.
            messages=max((messages for _, messages in found), default=0),
            filters=self._options.partition_filters,
        )
        return [RangePartition(piece) for piece in pieces]

    def _names(self) -> tuple[str, ...]:
        found = with_patience(
            self._options.link, "looking for streams", partial(stream_names, options=self._options)
        )
        warn_of_no_streams(found, self._options)
        return found

    def _range(self, name: str, js: JetStream) -> tuple[SequenceRange, int]:
        """Return what is read of a stream, and how many messages it has. Blocks."""
        stream = open_stream(js, name)
        head = head_of(stream)
        check_filters(stream, self._options)
        only_direct = needs_direct(head, self._options)
        starting, ending = self._options.start_of(name), self._options.end_of(name)
        start = resolve_start(stream, head, starting, self._options)
        end = resolve_end(stream, head, ending)
        first = start + 1
        if first <= end:
            first = check_available(head, head.created, first, self._options)
        wanted = SequenceRange(name, head.created, first, end, only_direct=only_direct)
        return wanted, head.messages

    @sentence_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition on an executor."""
        return read_partition(self._options, self._schema, partition)
