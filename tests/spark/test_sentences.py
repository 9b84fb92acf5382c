"""What a user sees of an error stands first in what Spark's Python processes tell the JVM."""

from __future__ import annotations

import functools
import io
import logging
import pickle
import re
import uuid
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StructType
from pyspark.util import handle_worker_exception

from jetsync.spark import SparkOptionError, SparkSourceError, consume_partition, publish_partition
from jetsync.spark.datasource import JetStreamDataSource
from jetsync.spark.ranges import SequenceRange
from jetsync.spark.reader import RangePartition
from jetsync.spark.sentences import sentence_first
from tests.spark.streaming import NOT_STARTED, going, in_time

ROWS = StructType().add("seq", "long")
NOWHERE: Any = {"servers": "nats://127.0.0.1:1", "serverUnavailableTimeout": "10ms"}


def told(call):
    """Return what a worker of Spark sends when ``call()`` raises, as lines."""
    out = io.BytesIO()
    try:
        call()
    except Exception as error:
        handle_worker_exception(error, out)
    return out.getvalue()[8:].decode().splitlines()


def source(**options):
    return JetStreamDataSource({**NOWHERE, **options})


def offsets():
    return source(stream="S").streamReader(ROWS).initialOffset()


def latest():
    reader = source(stream="S").streamReader(ROWS)
    return reader.latestOffset({}, reader.getDefaultReadLimit())


def read():
    part = RangePartition(SequenceRange("S", "", 1, 10))
    return list(source(stream="S").reader(ROWS).read(part))


def write():
    import pyarrow as pa

    columns = StructType().add("subject", "string").add("data", "binary")
    rows = pa.RecordBatch.from_pydict({"subject": ["a"], "data": [b""]})
    return source().writer(columns, overwrite=False).write(iter([rows]))


def publishing():
    return publish_partition(subject_col=0, data_col=1, **NOWHERE)


def publish():
    return list(publishing()([("a", b"")]))


def consume():
    return list(consume_partition(stream="S", consumer="C", work=print, **NOWHERE)([]))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: source(columns="no").schema(), "JETSYNC_UNKNOWN_COLUMN"),
        (lambda: source(topic="x").reader(ROWS), "JETSYNC_UNKNOWN_OPTION"),
        (lambda: source(topic="x").streamReader(ROWS), "JETSYNC_UNKNOWN_OPTION"),
        (lambda: source(topic="x").writer(ROWS, overwrite=False), "JETSYNC_UNKNOWN_OPTION"),
        (lambda: source(topic="x").streamWriter(ROWS, overwrite=False), "JETSYNC_UNKNOWN_OPTION"),
        (lambda: source(stream="S").reader(ROWS).partitions(), "JETSYNC_SERVER_UNAVAILABLE"),
        (read, "JETSYNC_SERVER_UNAVAILABLE"),
        (offsets, "JETSYNC_SERVER_UNAVAILABLE"),
        (latest, "JETSYNC_INVALID_OFFSET"),
        (write, "JETSYNC_SERVER_UNAVAILABLE"),
        (publish, "JETSYNC_SERVER_UNAVAILABLE"),
        (consume, "JETSYNC_SERVER_UNAVAILABLE"),
    ],
)
@pytest.mark.parametrize("simplified", [True, False])
def test_the_sentence_stands_first_wherever_spark_calls(monkeypatch, call, code, simplified):
    """Where Spark shortens tracebacks it shows no causes: then there is one frame before it."""
    if simplified:
        monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")
    lines = told(call)
    start = rf"jetsync\.spark\.errors\.Spark\w+Error: \[{code}\] "
    assert re.match(start, lines[-1])
    if simplified:
        # This file is in it as well, which in Spark is Spark's own and left out.
        assert len([line for line in lines if "jetsync/spark/" in line]) == 1
    else:
        assert lines[0] == lines[-1]


def failing_rows():
    yield 1
    raise SparkSourceError("gone", code="JETSYNC_DATA_LOSS")


def test_an_error_behind_the_first_rows_is_told_in_the_same_way():
    rows = sentence_first(failing_rows)()
    assert next(rows) == 1
    lines = told(lambda: next(rows))
    assert (
        lines[0] == lines[-1] == "jetsync.spark.errors.SparkSourceError: [JETSYNC_DATA_LOSS] gone"
    )


def test_rows_that_are_not_wanted_any_more_end_the_reading():
    ended = []

    def rows():
        try:
            yield 1
        finally:
            ended.append(True)

    reading = sentence_first(rows)()
    next(reading)
    reading.close()
    assert ended == [True]


@sentence_first
def fail_for(cause):
    raise SparkSourceError("the work", code="JETSYNC_WORK_FAILED") from cause


@sentence_first
def fail_with(error):
    raise error


def test_the_users_own_error_stays_the_cause():
    cause = ValueError("of the user")
    with pytest.raises(SparkSourceError) as caught:
        fail_for(cause)
    assert caught.value.__cause__ is cause


def test_an_error_without_a_code_keeps_its_way():
    lines = told(lambda: fail_with(ValueError("x")))
    assert lines[0].startswith("Traceback")
    assert "in fail_with" in "\n".join(lines)


def test_the_way_is_in_the_debug_log(caplog):
    with caplog.at_level(logging.DEBUG, "jetsync.spark"), pytest.raises(SparkOptionError) as caught:
        fail_with(SparkOptionError("x", code="JETSYNC_INVALID_OPTION"))
    assert caught.value.code == "JETSYNC_INVALID_OPTION"
    assert "in fail_with" in caplog.text


def test_what_spark_sends_to_its_workers_still_can_be_sent():
    function = pickle.loads(cloudpickle.dumps(publishing()))
    assert "JETSYNC_SERVER_UNAVAILABLE" in told(lambda: list(function([("a", b"")])))[0]


class Late:
    """Starts too late some times, as Spark's Python processes on a busy machine."""

    def __init__(self, times):
        self.times = times
        self.calls = 0
        self.status = {"message": "Waiting for data to arrive"}

    def exception(self):
        late = RuntimeError(f"{uuid.uuid4()}: Python worker {NOT_STARTED}.")
        return late if self.calls <= self.times else None

    def start(self):
        self.calls += 1
        return self


@pytest.mark.parametrize("times", [0, 1, 4])
def test_a_query_that_spark_started_too_late_is_started_again(times):
    assert going(Late(times).start).calls == times + 1


def test_a_query_that_always_is_too_late_fails_and_other_errors_do_at_once():
    with pytest.raises(RuntimeError, match=NOT_STARTED):
        going(Late(100).start)
    with pytest.raises(ZeroDivisionError):
        in_time(functools.partial(divmod, 1, 0))
