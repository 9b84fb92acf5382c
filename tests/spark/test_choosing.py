"""Which streams a query reads, how they are shared among tasks, and what is told of its state."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest
from pyspark.sql.types import StructType

from jetsync.spark import LagListener, release
from jetsync.spark.errors import SparkOptionError
from jetsync.spark.offsets import Offset
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.reader import JetStreamReader
from jetsync.spark.versions import ReadAllAvailable
from tests.spark.test_stream_reader import planned, reader, seq_of, travel

ALL = ReadAllAvailable()
SCHEMA = StructType().add("seq", "long").add("subject", "string")


@pytest.fixture
def family(js, server):
    """Make streams whose names begin alike."""
    prefix = "FAM" + uuid.uuid4().hex[:8]
    made: list[str] = []

    class Source:
        read_options = {"servers": server.url, "streamPattern": f"{prefix}_*"}

        @staticmethod
        def add(name, count):
            full = f"{prefix}_{name}"
            if full not in made:
                js.create_stream(name=full, subjects=[f"{full}.>"])
                made.append(full)
            js.publish_many([(f"{full}.x", b"")] * count, msg_id=None).raise_for_failed()
            return SimpleNamespace(name=full)

    yield Source
    for name in made:
        js.delete_stream(name)


def test_a_pattern_that_matches_no_stream_is_told_once(family, caplog):
    made = reader(family)
    start = travel(made.initialOffset())
    for _ in range(3):
        assert made.latestOffset(start, ALL) == start
    assert caplog.text.count("matches no stream") == 1
    options = ReadOptions.parse(family.read_options, streaming=False)
    assert JetStreamReader(options, SCHEMA).partitions() == []
    assert caplog.text.count("matches no stream") == 2


def test_streams_found_by_a_pattern_are_read_also_those_that_come_later(family):
    one = family.add("one", 3)
    made = reader(family, startingOffsets="latest")
    start = travel(made.initialOffset())
    assert list(Offset.from_dict(start).streams) == [one.name]
    family.add("one", 2)
    two = family.add("two", 4)
    end = travel(made.latestOffset(start, ALL))
    assert (seq_of(end, one), seq_of(end, two)) == (5, 4)
    assert planned(made, start, end) == [4, 5, 1, 2, 3, 4]
    # The first batch again, in a process that knows nothing.
    again = reader(family, startingOffsets="latest")
    assert planned(again, travel(again.initialOffset()), end) == [4, 5, 1, 2, 3, 4]


def test_a_batch_read_by_a_pattern_reads_what_matches_now(family):
    family.add("one", 3)
    family.add("two", 4)
    made = JetStreamReader(ReadOptions.parse(family.read_options, streaming=False), SCHEMA)
    rows = [
        row for part in made.partitions() for batch in made.read(part) for row in batch.to_pylist()
    ]
    assert sorted(row["seq"] for row in rows) == [1, 1, 2, 2, 3, 3, 4]


def test_a_pattern_and_a_name_exclude_each_other():
    with pytest.raises(SparkOptionError) as caught:
        ReadOptions.parse({"stream": "S", "streamPattern": "S*"}, streaming=True)
    assert caught.value.code == "JETSYNC_OPTION_CONFLICT"


@pytest.mark.parametrize("pattern", ["ORD.*", "orders.>", "A|B C"])
def test_a_pattern_that_no_name_of_a_stream_can_match_is_refused(pattern):
    """A regular expression, as the Kafka source has it, would find nothing, for ever."""
    with pytest.raises(SparkOptionError, match="no regular expression") as caught:
        ReadOptions.parse({"streamPattern": pattern}, streaming=True)
    assert caught.value.code == "JETSYNC_INVALID_OPTION"


def test_each_filter_may_be_a_task_of_its_own_which_keeps_its_order(js, new_stream):
    stream = new_stream()
    keys = [f"{stream.name}.{number % 7}.{number % 3}" for number in range(3_000)]
    js.publish_many([(key, b"") for key in keys]).raise_for_failed()
    options = {
        **stream.read_options,
        "filterSubjects": ",".join(f"{stream.name}.*.{part}" for part in range(3)),
        "partitionByFilter": "true",
    }
    made = JetStreamReader(ReadOptions.parse(options, streaming=False), SCHEMA)
    parts = [
        [row for batch in made.read(part) for row in batch.to_pylist()]
        for part in made.partitions()
    ]
    for number, rows in enumerate(parts):
        expected = [seq for seq, key in enumerate(keys, 1) if key.endswith(f".{number}")]
        assert [row["seq"] for row in rows] == expected
        assert all(row["subject"].endswith(f".{number}") for row in rows)
    assert len(parts) == 3
    with pytest.raises(SparkOptionError):
        ReadOptions.parse({"stream": "S", "partitionByFilter": "true"}, streaming=False)


def progress(end, latest=None, batch_id=0):
    return SimpleNamespace(
        id="query-id",
        name="orders",
        batchId=batch_id,
        processedRowsPerSecond=10.0,
        sources=[{"endOffset": end, "latestOffset": latest or end}],
    )


def test_the_last_batch_of_a_run_that_ends_is_released_by_hand(new_stream):
    stream = new_stream(10, retention="workqueue", allow_direct=True)
    options = {**stream.read_options, "onCommit": "purge"}
    made = reader(stream, onCommit="purge")
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    stream.fill(3)
    query = SimpleNamespace(lastProgress=progress(end))
    assert release(query, options) == {stream.name: 10}
    assert stream.messages == 3
    assert release(query, options) == {stream.name: 10}
    assert release(SimpleNamespace(lastProgress=None), options) == {}
    assert release(query, stream.read_options) == {}
    assert stream.messages == 3


def test_a_listener_exports_the_lag_of_each_query(new_stream, caplog):
    stream = new_stream(10)
    made = reader(stream)
    end = travel(made.latestOffset(travel(made.initialOffset()), ALL))
    stream.fill(5)
    made.latestOffset(end, ALL)
    seen: list[object] = []
    listener = LagListener(seen.append)
    listener.onQueryProgress(SimpleNamespace(progress=progress(end, made.reportLatestOffset(), 3)))
    (state,) = listener.states
    assert seen == [state]
    assert (state.batch_id, state.lag[stream.name]["behind"]) == (3, 5)
    assert (
        f'jetsync_spark_behind{{query="orders",stream="{stream.name}"}} 5' in listener.prometheus()
    )
    listener.onQueryTerminated(SimpleNamespace(id="query-id"))
    assert listener.states == []

    def fails(_):
        raise OSError("the exporter of this test is away")

    LagListener(fails).onQueryProgress(SimpleNamespace(progress=progress(end)))
    assert "exporting the state of query orders" in caplog.text
