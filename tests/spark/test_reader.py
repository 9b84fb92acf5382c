"""Batch reader: which partitions it makes, and what it does with one of Spark's making."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from jetsync.spark.ranges import SequenceRange
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.reader import JetStreamReader, RangePartition

OPTIONS = ReadOptions.parse({"stream": "S", "servers": "nats://127.0.0.1:1"}, streaming=False)


def test_the_partition_that_spark_makes_up_for_an_empty_read_gives_no_rows():
    reader = JetStreamReader(OPTIONS, StructType().add("seq", "long"))
    assert list(reader.read(InputPartition(None))) == []


def test_reading_is_lazy_so_nothing_connects_before_rows_are_wanted():
    reader = JetStreamReader(OPTIONS, StructType().add("seq", "long"))
    assert iter(reader.read(RangePartition(SequenceRange("S", "c", 1, 5))))


@pytest.mark.parametrize(("kept", "tasks"), [(1, 1), (-1, 8)])
def test_a_stream_whose_values_were_replaced_has_as_many_tasks_as_its_messages_are_worth(
    js, new_stream, kept, tasks
):
    """An old bucket has sequences by the billion and few messages."""
    stream = new_stream(1, max_msgs_per_subject=kept)
    stream.fill(25_000, "other")
    options = ReadOptions.parse(stream.read_options, streaming=False)
    reader = JetStreamReader(options, StructType().add("seq", "long"))
    ranges = [partition.range for partition in reader.partitions()]
    assert len(ranges) == tasks
    assert (ranges[0].first, ranges[-1].last) == (1, 25_001)
