"""The format as Spark sees it before anything runs: pickles, names, refusals. No connection."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader
from pyspark.sql.types import StructType, _parse_datatype_json_string

import pyspark_jetsync
from jetsync.spark import JetStreamDataSource
from jetsync.spark.errors import SparkOptionError
from jetsync.spark.versions import HAS_FILTERS

UNREACHABLE = "nats://127.0.0.1:1"
SCHEMA = StructType().add("seq", "long").add("data", "binary")
ROWS = StructType().add("subject", "string").add("data", "binary")


def source(**options: str) -> JetStreamDataSource:
    return JetStreamDataSource(CaseInsensitiveDict({"servers": UNREACHABLE, **options}))


def test_spark_finds_the_format_by_the_entry_module():
    assert pyspark_jetsync.DefaultSource is JetStreamDataSource
    assert JetStreamDataSource.name() == "jetstream"


def test_readers_are_made_and_pickled_without_connecting():
    reading = source(stream="S")
    for made in (reading, reading.reader(SCHEMA), reading.streamReader(SCHEMA)):
        assert type(pickle.loads(cloudpickle.dumps(made))) is type(made)


def test_a_writer_without_a_known_stream_is_made_without_connecting():
    for made in (source().writer(ROWS, False), source().streamWriter(ROWS, False)):
        assert type(pickle.loads(cloudpickle.dumps(made))) is type(made)


def test_pickles_of_classes_are_references_so_workers_use_their_own_code():
    assert b"jetsync.spark.datasource" in cloudpickle.dumps(JetStreamDataSource)
    assert len(cloudpickle.dumps(JetStreamDataSource)) < 200


@pytest.mark.skipif(
    not HAS_FILTERS, reason="filters came with PySpark 4.1; before, Spark filters itself"
)
def test_the_default_reader_leaves_filter_pushdown_alone_because_spark_refuses_it_by_default():
    reader = source(stream="S").reader(SCHEMA)
    assert type(reader).pushFilters is DataSourceReader.pushFilters


def test_the_schema_follows_the_columns_option():
    assert source(stream="S", columns="seq, data").schema() == "seq bigint, data binary"


def test_wrong_options_are_refused_when_the_reader_is_made():
    with pytest.raises(SparkOptionError, match="JETSYNC_MISSING_OPTION"):
        source().reader(SCHEMA)
    with pytest.raises(SparkOptionError, match="JETSYNC_UNKNOWN_OPTION"):
        source(stream="S", startingOffset="5").streamReader(SCHEMA)


@pytest.mark.parametrize("method", ["writer", "streamWriter"])
def test_overwriting_is_refused(method):
    with pytest.raises(SparkOptionError, match="JETSYNC_UNSUPPORTED_MODE"):
        getattr(source(), method)(ROWS, True)


def test_a_schema_of_spark_json_is_understood():
    text = '{"type":"struct","fields":[{"name":"seq","type":"long","nullable":true,"metadata":{}}]}'
    assert source(stream="S").reader(_parse_datatype_json_string(text))


def test_without_a_usable_jetsync_the_format_is_there_and_says_why():
    """Spark swallows a failing import of the entry module and would only say "not found"."""
    code = (
        "import sys\n"
        "sys.modules['jetsync'] = None\n"
        "import pyspark_jetsync\n"
        "from pyspark.cloudpickle import dumps, loads\n"
        "source = loads(dumps(pyspark_jetsync.DefaultSource))({})\n"
        "assert source.name() == 'jetstream'\n"
        "try:\n"
        "    source.schema()\n"
        "except ImportError as error:\n"
        "    assert '[JETSYNC_DEPENDENCY]' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('no error')\n"
    )
    root = str(Path(pyspark_jetsync.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": root}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)
