"""Batch reader: what happens without a stream of our own making."""

from __future__ import annotations

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
