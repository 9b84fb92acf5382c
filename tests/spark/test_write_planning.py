"""What is wrong with a write is said on the driver, with a code, before any task runs."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from jetsync.spark.datasource import JetStreamDataSource
from jetsync.spark.errors import CODES, SparkOptionError, SparkSourceError

PLAIN = "subject string, data string"
TYPES = {
    "string": StringType(),
    "bigint": LongType(),
    "int": IntegerType(),
    "double": DoubleType(),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def columns(text):
    """Read ``name type, name type`` without asking the JVM."""
    schema = StructType()
    for part in text.split(", "):
        name, kind = part.split(" ")
        schema.add(name, TYPES[kind])
    return schema


def plan(stream, schema=PLAIN, *, overwrite=False, streaming=False, **options):
    """Plan a write as Spark does; ``{s}`` in an option is the stream."""
    given = {name.lower(): value.format(s=stream.name) for name, value in options.items()}
    source = JetStreamDataSource({**stream.write_options, **given})
    make = source.streamWriter if streaming else source.writer
    return make(columns(schema), overwrite)


@pytest.fixture(scope="module")
def planned_stream(js, server):
    from tests.spark.conftest import NewStream

    stream = NewStream(js, server.url)
    yield stream
    js.delete_stream(stream.name)


@pytest.mark.parametrize(
    ("schema", "options", "code"),
    [
        (PLAIN + ", id bigint", {}, "JETSYNC_UNKNOWN_COLUMN"),
        ("subject string", {}, "JETSYNC_MISSING_COLUMN"),
        ("data string", {}, "JETSYNC_MISSING_COLUMN"),
        (PLAIN, {"dedup": "column"}, "JETSYNC_MISSING_COLUMN"),
        (PLAIN + ", schedule string", {}, "JETSYNC_MISSING_COLUMN"),
        (PLAIN + ", schedule_target string", {}, "JETSYNC_MISSING_COLUMN"),
        (PLAIN + ", msg_id string", {}, "JETSYNC_OPTION_CONFLICT"),
        ("subject string, data bigint", {}, "JETSYNC_COLUMN_TYPE"),
        (PLAIN + ", headers map<string,int>", {}, "JETSYNC_COLUMN_TYPE"),
        (PLAIN + ", ttl double", {}, "JETSYNC_COLUMN_TYPE"),
        (PLAIN + ", expected_last_sequence string", {}, "JETSYNC_COLUMN_TYPE"),
        (PLAIN, {"dedupe": "none"}, "JETSYNC_UNKNOWN_OPTION"),
        (PLAIN, {"filterSubjects": "S"}, "JETSYNC_UNKNOWN_OPTION"),
        (PLAIN, {"dedup": "hash"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"atomic": "partition"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"commitMarker": "yes"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"commitMarker": "true", "queryId": "a b"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"commitMarker": "true"}, "JETSYNC_UNSUPPORTED_OPTION"),
        (PLAIN, {"maxInflight": "0"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"maxInflightBytes": "many"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"publishTimeout": "0s"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"publishRetries": "-1"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"minDuplicateWindow": "soon"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"minDuplicateWindow": "error:soon"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"onOverwrite": "drop"}, "JETSYNC_INVALID_OPTION"),
        (PLAIN, {"onOverwrite": "purge"}, "JETSYNC_MISSING_OPTION"),
        ("data string", {"subject": "a.*"}, "JETSYNC_INVALID_OPTION"),
        ("data string", {"subject": "a..b"}, "JETSYNC_INVALID_OPTION"),
        ("data string", {"subject": "nothing.takes.this"}, "JETSYNC_NO_SUBJECT"),
        ("data string", {"subject": "{s}.a", "publishStream": "OTHER"}, "JETSYNC_WRONG_STREAM"),
        (PLAIN, {"publishStream": "NONE"}, "JETSYNC_STREAM_NOT_FOUND"),
        (
            PLAIN,
            {"publishStream": "{s}", "minDuplicateWindow": "error:10m"},
            "JETSYNC_DUPLICATE_WINDOW",
        ),
        (PLAIN, {"publishStream": "{s}", "atomic": "chunk"}, "JETSYNC_STREAM_CONFIG"),
        (PLAIN + ", ttl string", {"publishStream": "{s}"}, "JETSYNC_STREAM_CONFIG"),
        (
            PLAIN + ", schedule string, schedule_target string",
            {"publishStream": "{s}"},
            "JETSYNC_STREAM_CONFIG",
        ),
    ],
)
def test_a_write_that_cannot_work_is_refused_with_a_code(planned_stream, schema, options, code):
    with pytest.raises((SparkOptionError, SparkSourceError)) as caught:
        plan(planned_stream, schema, **options)
    assert getattr(caught.value, "code", None) == code
    assert str(caught.value).startswith(f"[{code}] ")
    assert code in CODES


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({"no_ack": True}, {}),
        ({"deny_purge": True}, {"onOverwrite": "purge"}),
    ],
)
def test_a_stream_that_cannot_take_the_write_is_refused(new_stream, config, options):
    stream = new_stream(**config)
    with pytest.raises(SparkSourceError) as caught:
        plan(stream, publishStream=stream.name, **options)
    assert caught.value.code == "JETSYNC_STREAM_CONFIG"


def test_what_the_stream_allows_is_planned(new_stream):
    stream = new_stream(allow_atomic=True, allow_msg_ttl=True, allow_msg_schedules=True)
    further = ", ttl string, schedule string, schedule_target string, expected_last_sequence int"
    plan(stream, PLAIN + further, publishStream=stream.name, atomic="chunk")


def test_a_short_duplicate_window_is_a_warning(new_stream, caplog):
    stream = new_stream(duplicate_window=5)
    with caplog.at_level(logging.WARNING, "jetsync.spark"):
        plan(stream, publishStream=stream.name, dedup="none")
        assert not caplog.messages
        plan(stream, publishStream=stream.name)
    assert "forgets message ids after 5 s" in caplog.messages[0]


@pytest.mark.parametrize("streaming", [False, True])
def test_overwriting_is_refused(planned_stream, streaming):
    with pytest.raises(SparkOptionError) as caught:
        plan(planned_stream, overwrite=True, streaming=streaming)
    assert caught.value.code == "JETSYNC_UNSUPPORTED_MODE"


def test_planning_needs_no_server_when_the_stream_is_not_named():
    source = JetStreamDataSource({"servers": "nats://127.0.0.1:9"})
    source.writer(columns(PLAIN), False)
    source.streamWriter(columns(PLAIN), False)
