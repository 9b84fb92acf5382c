"""The columns of the sink."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.write_options import WriteOptions

LISTS = pa.map_(pa.string(), pa.list_(pa.binary()))
NORMAL_HEADERS = pa.map_(pa.string(), pa.binary())
"""What is published: a name as often as it has values."""


def struct(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def check(schema: StructType, **options: str) -> SinkColumns:
    return SinkColumns.check(schema, WriteOptions.parse(options))


def code_of(schema: StructType, **options: str) -> str | None:
    with pytest.raises(SparkOptionError) as caught:
        check(schema, **options)
    return caught.value.code


def test_subject_and_data_are_enough():
    columns = check(struct(subject=StringType(), data=StringType()))
    assert columns == SinkColumns(frozenset({"subject", "data"}))
    assert not columns.headers
    assert pickle.loads(pickle.dumps(columns)) == columns


def test_the_fixed_subject_replaces_the_column():
    assert check(struct(data=BinaryType()), subject="a.b").subject == "a.b"
    assert check(struct(subject=StringType(), data=BinaryType()), subject="a.b").subject == "a.b"


def test_missing_columns_are_named():
    assert code_of(struct(subject=StringType())) == "JETSYNC_MISSING_COLUMN"
    assert code_of(struct(data=StringType())) == "JETSYNC_MISSING_COLUMN"
    schema = struct(subject=StringType(), data=StringType())
    assert code_of(schema, dedup="column") == "JETSYNC_MISSING_COLUMN"


def test_unknown_columns_are_refused_not_dropped():
    schema = struct(subject=StringType(), data=StringType(), seq=LongType(), carrier=StringType())
    with pytest.raises(SparkOptionError, match="seq, carrier") as caught:
        check(schema)
    assert caught.value.code == "JETSYNC_UNKNOWN_COLUMN"


def test_an_id_column_that_would_be_ignored_is_refused():
    schema = struct(subject=StringType(), data=StringType(), msg_id=StringType())
    assert code_of(schema) == "JETSYNC_OPTION_CONFLICT"
    assert "msg_id" in check(schema, dedup="column").names


def test_wrong_types_are_refused():
    assert code_of(struct(subject=StringType(), data=LongType())) == "JETSYNC_COLUMN_TYPE"
    schema = struct(subject=StringType(), data=StringType(), headers=StringType())
    assert code_of(schema) == "JETSYNC_COLUMN_TYPE"


@pytest.mark.parametrize("value", [StringType(), BinaryType()])
def test_every_documented_header_type_is_taken(value):
    kafka = StructType([StructField("key", StringType()), StructField("value", value)])
    for kind in (
        MapType(StringType(), value),
        MapType(StringType(), ArrayType(value)),
        ArrayType(kafka),
    ):
        assert check(struct(data=StringType(), headers=kind), subject="s").headers


def normal(columns: SinkColumns, **arrays: pa.Array) -> pa.RecordBatch:
    return columns.normalise(pa.RecordBatch.from_pydict(arrays))


WITH_HEADERS = SinkColumns(frozenset({"data", "headers"}), subject="s")
DATA = pa.array(["1", "2", "3"])
KAFKA = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))


@pytest.mark.parametrize(
    "headers",
    [
        pa.array([[("A", ["1", "2"])], None, []], pa.map_(pa.string(), pa.list_(pa.string()))),
        pa.array([[("A", [b"1", b"2"])], None, []], LISTS),
        pa.array(
            [[("A", ["1", "2"])], None, []],
            pa.map_(pa.large_string(), pa.large_list(pa.large_string())),
        ),
    ],
)
def test_lists_of_header_values_become_one_form(headers):
    found = normal(WITH_HEADERS, data=DATA, headers=headers).column("headers")
    assert found.type == NORMAL_HEADERS
    assert found.to_pylist() == [[("A", b"1"), ("A", b"2")], [], []]
    found.validate(full=True)


@pytest.mark.parametrize(
    "headers",
    [
        pa.array([[("A", "1"), ("B", "2")], None, []], pa.map_(pa.string(), pa.string())),
        pa.array([[("A", b"1"), ("B", b"2")], None, []], pa.map_(pa.string(), pa.binary())),
        pa.array([[{"key": "A", "value": "1"}, {"key": "B", "value": "2"}], None, []], KAFKA),
    ],
)
def test_single_header_values_become_the_same_form(headers):
    found = normal(WITH_HEADERS, data=DATA, headers=headers).column("headers")
    assert found.to_pylist() == [[("A", b"1"), ("B", b"2")], [], []]
    found.validate(full=True)


def test_repeated_names_of_kafka_like_headers_are_kept():
    headers = pa.array([[{"key": "A", "value": "1"}, {"key": "A", "value": "2"}]], KAFKA)
    found = normal(WITH_HEADERS, data=pa.array(["x"]), headers=headers).column("headers")
    assert found.to_pylist() == [[("A", b"1"), ("A", b"2")]]


def test_a_slice_is_normalised_like_its_rows():
    headers = pa.array([[("A", ["1"])], [("B", ["2"])], None], LISTS)
    whole = pa.RecordBatch.from_pydict({"data": DATA, "headers": headers})
    assert WITH_HEADERS.normalise(whole.slice(1)).to_pylist() == [
        {"data": b"2", "headers": [("B", b"2")]},
        {"data": b"3", "headers": []},
    ]


def test_null_data_is_an_empty_payload():
    columns = SinkColumns(frozenset({"data"}), subject="s")
    found = normal(columns, data=pa.array(["x", None], pa.large_string()))
    assert found.to_pylist() == [{"data": b"x"}, {"data": b""}]


@pytest.mark.parametrize("name", ["subject", "msg_id"])
def test_null_subjects_and_ids_are_refused(name):
    columns = SinkColumns(frozenset({"subject", "data", "msg_id"}))
    arrays = {"subject": DATA, "data": DATA, "msg_id": DATA, name: pa.array(["a", None, "b"])}
    with pytest.raises(SparkSourceError) as caught:
        normal(columns, **arrays)
    assert caught.value.code == "JETSYNC_NULL_VALUE"


def test_rows_that_were_not_acknowledged_can_be_picked_out():
    headers = pa.array([[("A", ["1"])], None, [("B", ["2"])]], LISTS)
    found = normal(WITH_HEADERS, data=DATA, headers=headers).take([2, 0])
    assert found.to_pylist() == [
        {"data": b"3", "headers": [("B", b"2")]},
        {"data": b"1", "headers": [("A", b"1")]},
    ]


def test_the_value_of_kafka_is_told_our_name():
    with pytest.raises(SparkOptionError, match="column data: rename value"):
        check(struct(value=StringType()), subject="s.x")


def test_the_topic_of_kafka_is_told_our_name():
    with pytest.raises(SparkOptionError, match="column subject: rename topic"):
        check(struct(topic=StringType(), data=StringType()))


def test_columns_in_upper_case_are_told_to_be_in_lower_case():
    """Spark's SQL makes no difference between them."""
    with pytest.raises(SparkOptionError, match="rename Subject to subject"):
        check(struct(Subject=StringType(), data=StringType()))
