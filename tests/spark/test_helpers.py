"""Helpers inside real tasks and on real queries."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from types import SimpleNamespace

import pandas
import pyarrow as pa
import pytest
from pyspark.sql import Row

from jetsync.spark import (
    JetStreamDataSource,
    SparkOptionError,
    SparkSourceError,
    connection,
    kv,
    lag,
    publish_partition,
    publisher,
    register,
)
from tests.harness.waiting import wait_until
from tests.spark.streaming import Collected, going, needs_limits, read_stream

COUNTS = "stored bigint, duplicates bigint"


def payloads(stream):
    handle = stream.js.stream(stream.name)
    return Counter(bytes(handle.get_msg(seq).data) for seq in range(1, stream.last_seq + 1))


def test_tasks_of_one_worker_share_a_connection_and_leave_it_open(spark, new_stream):
    stream = new_stream()
    options, subject = {"servers": stream.url}, f"{stream.name}.x"

    def publish(rows):
        with connection(options) as nc:
            for row in rows:
                nc.jetstream().publish(subject, str(row.id).encode())
            yield os.getpid(), nc.client_id

    for _ in range(3):
        seen = set(spark.range(8).repartition(4).rdd.mapPartitions(publish).collect())
        workers = {pid for pid, _ in seen}
        assert len(seen) == len(workers)
    assert stream.messages == 24


def test_foreach_partition_publishes_everything_once(spark, new_stream):
    stream = new_stream()
    frame = spark.range(100).selectExpr(f"'{stream.name}.a' subject", "cast(id as string) data")
    frame.repartition(2).foreachPartition(publish_partition(servers=stream.url))
    assert payloads(stream) == {b"%d" % i: 1 for i in range(100)}


@pytest.mark.parametrize("form", ["mapInArrow", "mapInPandas"])
def test_partitions_of_columns_are_published_and_counted(spark, new_stream, form):
    stream = new_stream()
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "cast(id as string) body", f"'{stream.name}.a' place", "map('K', cast(id as string)) h"
    )
    publish = publish_partition(
        servers=stream.url, subject_col="place", data_col="body", headers_col="h"
    )
    for _ in range(2):  # the second time it is a repetition of the same job
        counts = getattr(frame, form)(publish, COUNTS).collect()
        assert sum(row.stored for row in counts) == 100
    assert sum(row.duplicates for row in counts) == 100
    assert payloads(stream) == {b"%d" % i: 1 for i in range(100)}
    message = stream.js.stream(stream.name).get_msg(1)
    assert message.headers["K"].encode() == message.data


def test_tuples_are_published_by_position_and_by_ids_of_their_own(new_stream):
    stream = new_stream()
    publish = publish_partition(
        servers=stream.url,
        subject=f"{stream.name}.x",
        data_col=1,
        headers_col=2,
        msg_id="column",
        msg_id_col=0,
    )
    for _ in range(2):
        publish([("one", "1", {"K": "v"}), ("two", b"2", None), ("three", None, {"K": ["a", "b"]})])
    handle = stream.js.stream(stream.name)
    messages = [handle.get_msg(seq) for seq in range(1, stream.last_seq + 1)]
    assert [message.data for message in messages] == [b"1", b"2", b""]
    assert [message.headers.get_all("K") for message in messages] == [["v"], [], ["a", "b"]]
    assert messages[0].headers["Nats-Msg-Id"] == "one"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"msg_id": "row"}, "JETSYNC_INVALID_OPTION"),
        ({"msg_id": "column"}, "JETSYNC_MISSING_OPTION"),
        ({"server": "nats://x"}, "JETSYNC_UNKNOWN_OPTION"),
    ],
)
def test_a_wrong_use_is_told_before_any_task_runs(given, code):
    with pytest.raises(SparkOptionError) as caught:
        publish_partition(**given)
    assert caught.value.code == code


@pytest.mark.parametrize("form", ["tuple", "dict", "Row", "batch", "frame"])
def test_a_column_that_the_rows_do_not_have_is_named(new_stream, form):
    stream = new_stream()
    publish = publish_partition(servers=stream.url, data_col="body")
    row = {"subject": f"{stream.name}.x", "data": b"x"}
    item = {
        "tuple": lambda: tuple(row.values()),
        "dict": lambda: row,
        "Row": lambda: Row(**row),
        "batch": lambda: pa.RecordBatch.from_pylist([row]),
        "frame": lambda: pandas.DataFrame([row]),
    }[form]()
    with pytest.raises(SparkSourceError, match=r"no column 'body'.*data_col") as caught:
        publish([item])
    assert caught.value.code == "JETSYNC_MISSING_COLUMN"
    assert stream.messages == 0


def test_a_publisher_confirms_everything_at_the_end_of_its_block(new_stream):
    stream = new_stream()
    with publisher({"servers": stream.url}) as out:
        for i in range(2500):
            out.publish(f"{stream.name}.{i % 3}", str(i), headers={"K": "v"})
        assert stream.messages == 2000
        out.publish(f"{stream.name}.last", b"x", msg_id="mine")
        out.publish(f"{stream.name}.last", b"x", msg_id="mine")
    assert (out.stored, out.duplicates) == (2502, 1)
    assert stream.messages == 2501


def test_a_publisher_of_a_named_job_recognises_what_it_published_before(new_stream):
    stream = new_stream()
    for _ in range(2):
        with publisher({"servers": stream.url}, job_id="night") as out:
            for i in range(100):
                out.publish(f"{stream.name}.x", b"%d" % (i % 50))
        with pytest.raises(SparkOptionError):
            out.publish(f"{stream.name}.x", b"", msg_id="mine")
    assert (out.stored, out.duplicates, stream.messages) == (100, 100, 100)


def test_a_publisher_drops_what_is_waiting_when_its_block_fails(new_stream):
    stream = new_stream()
    with pytest.raises(ZeroDivisionError), publisher({"servers": stream.url}) as out:
        out.publish(f"{stream.name}.x", b"1")
        raise ZeroDivisionError
    assert stream.messages == 0


def test_a_publisher_tells_what_could_not_be_stored(new_stream):
    stream = new_stream()
    options = {"servers": stream.url, "publishTimeout": "500ms"}
    with pytest.raises(SparkSourceError) as caught, publisher(options) as out:
        out.publish("nothing.takes.this", b"1")
    assert caught.value.code == "JETSYNC_NO_SUBJECT"


def test_a_udf_looks_keys_up(spark, server, js):
    bucket = "rates" + uuid.uuid4().hex[:8]
    js.create_key_value(bucket=bucket).put("EUR", b"1.25")
    options = {"servers": server.url}

    from pyspark.sql import functions as F

    @F.udf("string")
    def rate(key):
        again = kv(bucket, options) is kv(bucket, options)
        return f"{kv(bucket, options).get(key).value.decode()} {again}"

    found = spark.range(20).select(rate(F.lit("EUR"))).distinct().collect()
    assert [row[0] for row in found] == ["1.25 True"]
    js.delete_key_value(bucket)


@needs_limits
def test_lag_grows_while_a_query_may_not_read_everything(spark, new_stream, tmp_path):
    stream = new_stream(10)
    sink = Collected()
    writer = (
        read_stream(spark, stream, maxOffsetsPerTrigger=4, minOffsetsPerTrigger=4)
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path))
    )
    query = going(writer.start)
    try:
        wait_until(
            lambda: lag(query) == {stream.name: {"latest": 10, "end": 8, "behind": 2}}, timeout=60
        )
    finally:
        query.stop()


def test_registering_by_hand_gives_the_session_the_format(spark, new_stream):
    """Where Spark finds it by itself, too, nothing else would be seen of it."""
    given = []
    register(SimpleNamespace(dataSource=SimpleNamespace(register=given.append)))
    assert given == [JetStreamDataSource]
    register(spark)
    stream = new_stream(3)
    frame = spark.read.format("jetstream").options(**stream.read_options).load()
    assert frame.count() == 3
