"""What older versions of PySpark need: offsets without a start, and rows instead of Arrow."""

from __future__ import annotations

import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.older import ROWS, arrow_batches
from jetsync.spark.versions import check_version

SCHEMA = (
    StructType()
    .add("subject", StringType())
    .add("data", BinaryType())
    .add("headers", MapType(StringType(), ArrayType(StringType())))
    .add("expected_last_sequence", LongType())
)


def test_rows_become_arrow_batches():
    rows = [
        Row("a", bytearray(b"1"), {"K": ["v", "w"]}, 7),
        Row("b", None, None, None),
    ]
    (batch,) = arrow_batches(iter(rows), SCHEMA)
    assert batch.to_pylist() == [
        {"subject": "a", "data": b"1", "headers": [("K", ["v", "w"])], "expected_last_sequence": 7},
        {"subject": "b", "data": None, "headers": None, "expected_last_sequence": None},
    ]


def test_many_rows_become_several_batches_and_arrow_stays_what_it_is():
    rows = (Row("s", b"%d" % number, None, None) for number in range(ROWS + 1))
    made = list(arrow_batches(rows, SCHEMA))
    assert [batch.num_rows for batch in made] == [ROWS, 1]
    assert list(arrow_batches(iter(made), SCHEMA)) == made
    assert list(arrow_batches(iter(()), SCHEMA)) == []


@pytest.mark.parametrize("version", ["4.0.0", "4.1.1", "4.3.0", "5.0.0.dev1"])
def test_versions_with_python_data_sources_are_taken(version):
    check_version(version)


@pytest.mark.parametrize("version", ["3.5.6", "2.4.8"])
def test_older_versions_are_refused_with_a_sentence(version):
    with pytest.raises(SparkOptionError, match=f"PySpark {version} has no Python data sources"):
        check_version(version)
