"""Turning received columns into exactly what Spark expects."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.schema import DEFAULT_COLUMNS, Layout, check_schema, ddl
from jetsync.spark.versions import arrow_schema

FIELDS = {
    "subject": StringType(),
    "data": BinaryType(),
    "headers": MapType(StringType(), ArrayType(StringType())),
    "stream": StringType(),
    "seq": LongType(),
    "timestamp": TimestampType(),
    "timestamp_ns": LongType(),
    "size": IntegerType(),
}

NANOSECONDS = 1_700_000_000_123_456_789


def struct(*names: str) -> StructType:
    return StructType([StructField(name, FIELDS[name]) for name in names])


def received(layout: Layout) -> pa.RecordBatch:
    item = pa.string() if layout.text_headers else pa.binary()
    value = "v" if layout.text_headers else b"v"
    unit = pa.timestamp("us" if layout.microseconds else "ns", tz="UTC")
    columns = {
        "subject": pa.array(["a.b", "c", ""], pa.string()),
        "data": pa.array([b"1", b"", b"\xff\x00x"], pa.binary()),
        "headers": pa.array(
            [[("K", [value, value])], None, [("E", [])]], pa.map_(pa.string(), pa.list_(item))
        ),
        "stream_seq": pa.array([1, 5, 2**40], pa.uint64()),
        "timestamp": pa.array([NANOSECONDS // (1000 if layout.microseconds else 1)] * 3, unit),
    }
    return pa.RecordBatch.from_pydict({name: columns[name] for name in layout.received})


@pytest.mark.parametrize(
    "names",
    [DEFAULT_COLUMNS, tuple(FIELDS), tuple(reversed(FIELDS)), ("seq",), ("size",), ("stream",)],
)
def test_batches_have_exactly_the_schema_that_spark_compares_with(names):
    layout = Layout(struct(*names))
    batch = layout.convert(received(layout), "ORDERS")
    assert arrow_schema(struct(*names)).equals(batch.schema)
    batch.validate(full=True)
    assert batch.num_rows == 3


def test_times_come_in_the_unit_that_is_asked_for():
    """Spark's unit is made with the column, unless the nanoseconds are a column too."""
    layout = Layout(struct(*DEFAULT_COLUMNS))
    assert layout.microseconds
    assert received(layout).column("timestamp").type.equals(layout.target.field("timestamp").type)
    assert not Layout(struct("timestamp", "timestamp_ns")).microseconds


def test_values_survive_unchanged():
    layout = Layout(struct(*FIELDS))
    rows = layout.convert(received(layout), "ORDERS").to_pylist()
    assert [row["subject"] for row in rows] == ["a.b", "c", ""]
    assert [row["data"] for row in rows] == [b"1", b"", b"\xff\x00x"]
    assert [row["headers"] for row in rows] == [[("K", ["v", "v"])], None, [("E", [])]]
    assert [row["seq"] for row in rows] == [1, 5, 2**40]
    assert {row["stream"] for row in rows} == {"ORDERS"}
    assert {row["timestamp_ns"] for row in rows} == {NANOSECONDS}
    assert [row["size"] for row in rows] == [1, 0, 3]


def test_timestamps_are_cut_to_microseconds_not_rounded():
    layout = Layout(struct("timestamp"))
    moment = layout.convert(received(layout), "S").to_pylist()[0]["timestamp"]
    begin = datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)
    assert moment == begin + timedelta(microseconds=123_456)


def test_only_needed_columns_are_asked_for():
    assert Layout(struct("seq", "stream")).received == ("stream_seq",)
    assert "headers" not in Layout(struct(*FIELDS), include_headers=False).received


def test_headers_left_out_are_null():
    layout = Layout(struct("headers"), include_headers=False)
    assert layout.convert(received(layout), "S").column(0).null_count == 3


def test_exact_header_bytes_can_be_asked_for():
    kind = MapType(StringType(), ArrayType(BinaryType()))
    layout = Layout(StructType([StructField("headers", kind)]))
    assert not layout.text_headers
    batch = layout.convert(received(layout), "S")
    assert batch.to_pylist()[0] == {"headers": [("K", [b"v", b"v"])]}


def test_a_slice_of_a_batch_converts_like_the_whole():
    layout = Layout(struct(*FIELDS))
    part = received(layout).slice(1, 1)
    rows = layout.convert(part, "S").to_pylist()
    assert rows == [layout.convert(received(layout), "S").to_pylist()[1]]


def test_an_empty_batch_converts():
    layout = Layout(struct(*FIELDS))
    assert layout.convert(received(layout).slice(0, 0), "S").num_rows == 0


def test_the_default_schema_is_the_documented_one():
    assert ddl(()) == (
        "subject string, data binary, headers map<string,array<string>>, stream string, "
        "seq bigint, timestamp timestamp"
    )


def test_columns_choose_and_order():
    assert ddl(("seq", "size")) == "seq bigint, size int"


@pytest.mark.parametrize("names", [("seq", "body"), ("seq", "seq")])
def test_strange_columns_are_refused(names):
    with pytest.raises(SparkOptionError) as caught:
        ddl(names)
    assert caught.value.code == "JETSYNC_UNKNOWN_COLUMN"


@pytest.mark.parametrize(
    "field",
    [
        StructField("seq", StringType()),
        StructField("data", StringType()),
        StructField("headers", FIELDS["headers"], nullable=False),
    ],
)
def test_types_that_cannot_be_given_are_refused(field):
    with pytest.raises(SparkOptionError) as caught:
        check_schema(StructType([field]))
    assert caught.value.code == "JETSYNC_COLUMN_TYPE"
