"""The sink: every row is stored once, or the write fails."""

from __future__ import annotations

import json
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import jetsync
from jetsync.server import NatsServer
from tests.spark.faulty_jetstream import FaultyJetStream
from tests.spark.streaming import read_stream, to_its_end


def stored(stream):
    """Every message of a stream as (subject, data, headers)."""
    handle = stream.js.stream(stream.name)
    return [
        (message.subject, bytes(message.data), message.headers)
        for message in (handle.get_msg(seq) for seq in range(1, stream.last_seq + 1))
    ]


def stored_from(stream, seq):
    """The data of what is there from a sequence on."""
    batch = stream.js.stream(stream.name).get_msgs(seq, max_messages=1000)
    return [bytes(message.data) for message in batch]


def payloads(stream):
    return Counter(data for _, data, _ in stored(stream))


def rows(spark, stream, count):
    return spark.range(count).select(
        F.concat(F.lit(f"{stream.name}."), (F.col("id") % 3).cast("string")).alias("subject"),
        F.col("id").cast("string").alias("data"),
    )


def write(frame, stream, form="jetstream", **options):
    given = {**stream.write_options, **options}
    frame.write.format(form).options(**given).mode("append").save()


def failure(action):
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


@pytest.fixture
def small_batches(spark):
    """Tasks get several Arrow batches, so that something can happen between them."""
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(key, "50")
    yield
    spark.conf.unset(key)


def test_rows_become_messages(spark, new_stream):
    stream = new_stream()
    frame = spark.createDataFrame(
        [
            (f"{stream.name}.a", bytearray(b"\x00\xff"), {"K": ["1", "2"]}),
            (f"{stream.name}.b", None, None),
        ],
        "subject string, data binary, headers map<string,array<string>>",
    ).coalesce(1)
    write(frame, stream)
    one, two = stored(stream)
    assert one[:2] == (f"{stream.name}.a", b"\x00\xff")
    assert one[2].get_all("K") == ["1", "2"]
    assert two[:2] == (f"{stream.name}.b", b"")


def test_the_subject_may_be_an_option(spark, new_stream):
    stream = new_stream()
    write(
        spark.range(5).select(F.col("id").cast("string").alias("data")),
        stream,
        subject=f"{stream.name}.fixed",
        publishStream=stream.name,
    )
    assert {subject for subject, _, _ in stored(stream)} == {f"{stream.name}.fixed"}


@pytest.mark.parametrize("kind", ["map<string,string>", "array<struct<key:string,value:string>>"])
def test_other_forms_of_headers_work(spark, new_stream, kind):
    stream = new_stream()
    made = "map('K', 'v')" if kind.startswith("map") else "array(struct('K' key, 'v' value))"
    frame = spark.range(3).selectExpr(f"'{stream.name}.a' subject", "'x' data", f"{made} headers")
    write(frame, stream)
    assert [headers["K"] for _, _, headers in stored(stream)] == ["v"] * 3


def test_equal_rows_are_all_stored(spark, new_stream):
    stream = new_stream()
    frame = spark.range(60).selectExpr(f"'{stream.name}.a' subject", "'same' data")
    write(frame.repartition(2), stream)
    assert payloads(stream) == {b"same": 60}


def test_writing_the_same_frame_twice_stores_it_twice(spark, new_stream):
    stream = new_stream()
    for _ in range(2):
        write(rows(spark, stream, 20), stream)
    assert set(payloads(stream).values()) == {2}


def test_a_repeated_job_with_the_same_query_id_stores_nothing_twice(spark, new_stream):
    stream = new_stream()
    for _ in range(2):
        write(rows(spark, stream, 20), stream, queryId="night-1")
    assert stream.messages == 20


def test_a_killed_task_is_repeated_without_duplicates(spark, new_stream, small_batches):
    spark.dataSource.register(FaultyJetStream)
    stream = new_stream()
    write(rows(spark, stream, 400).repartition(2, "data"), stream, "faulty_jetstream")
    assert payloads(stream) == {b"%d" % i: 1 for i in range(400)}


def test_a_killed_task_is_repeated_without_duplicates_by_the_ids_of_a_column(
    spark, new_stream, small_batches
):
    spark.dataSource.register(FaultyJetStream)
    stream = new_stream()
    frame = rows(spark, stream, 400).withColumn("msg_id", F.concat(F.lit("row-"), "data"))
    write(frame, stream, "faulty_jetstream", dedup="column")
    assert payloads(stream) == {b"%d" % i: 1 for i in range(400)}


def test_without_ids_a_killed_task_repeats_what_it_had_published(spark, new_stream, small_batches):
    spark.dataSource.register(FaultyJetStream)
    stream = new_stream()
    write(rows(spark, stream, 400), stream, "faulty_jetstream", dedup="none")
    counts = payloads(stream)
    assert set(counts) == {b"%d" % i for i in range(400)}
    assert stream.messages == 500  # two tasks had published one batch of 50 each


def test_ids_of_a_column_hold_across_jobs(spark, new_stream):
    stream = new_stream()
    frame = rows(spark, stream, 20).withColumn("msg_id", F.col("data"))
    for _ in range(2):
        write(frame, stream, dedup="column")
    assert stream.messages == 20


def test_a_streaming_copy_is_exact_although_a_finished_batch_is_repeated(
    spark, new_stream, tmp_path
):
    source, target = new_stream(200), new_stream()

    def copy():
        frame = read_stream(spark, source, maxOffsetsPerTrigger=80).select(
            F.lit(f"{target.name}.copy").alias("subject"), "data"
        )
        writer = (
            frame.writeStream.format("jetstream")
            .options(**target.write_options)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
        )
        to_its_end(writer.start)

    copy()
    expected = {b"%d" % i: 1 for i in range(1, 201)}
    assert payloads(target) == expected
    # As after a crash between the sink and Spark's own note that the batch is done.
    for path in (tmp_path / "commits").glob("*2*"):
        path.unlink()
    copy()
    assert payloads(target) == expected


def test_a_killed_streaming_task_is_repeated_without_duplicates(
    spark, new_stream, tmp_path, small_batches
):
    spark.dataSource.register(FaultyJetStream)
    source, target = new_stream(400), new_stream()
    frame = read_stream(spark, source, minPartitions=2, fetchBatch=50).select(
        F.lit(f"{target.name}.copy").alias("subject"), "data"
    )
    writer = (
        frame.writeStream.format("faulty_jetstream")
        .options(**target.write_options)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
    )
    to_its_end(writer.start)
    assert payloads(target) == {b"%d" % i: 1 for i in range(1, 401)}


def test_writing_waits_for_a_server_that_comes_back(spark, tmp_path):
    """It is started when a task has tried to reach it in vain."""
    with NatsServer(store_dir=tmp_path) as server:
        with jetsync.connect(server.url) as nc:
            nc.jetstream().create_stream(name="S", subjects=["s.>"])
        server.kill()

        def refuse_once_and_start():
            with socket.create_server(("127.0.0.1", urlsplit(server.url).port)) as door:
                door.settimeout(120)
                door.accept()[0].close()
            server.start()

        frame = spark.range(100).selectExpr("'s.x' subject", "cast(id as string) data")
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(refuse_once_and_start)
            frame.write.format("jetstream").option("servers", server.url).mode("append").save()
            started.result()
        with jetsync.connect(server.url) as nc:
            assert nc.jetstream().stream("S").info().state.messages == 100


@pytest.mark.parametrize(
    ("select", "options", "code"),
    [
        ("'{s}.a' subject, 'x' data, id", {}, "JETSYNC_UNKNOWN_COLUMN"),
        ("'x' data", {"subject": "nothing.takes.this"}, "JETSYNC_NO_SUBJECT"),
        ("cast(null as string) subject, 'x' data", {}, "JETSYNC_NULL_VALUE"),
        ("'{o}.a' subject, 'x' data", {"publishStream": "{s}"}, "JETSYNC_WRONG_STREAM"),
    ],
)
def test_errors_reach_the_driver_with_their_code(spark, new_stream, select, options, code):
    stream, other = new_stream(), new_stream()
    given = {name: value.format(s=stream.name) for name, value in options.items()}
    columns = select.format(s=stream.name, o=other.name).split(", ")
    frame = spark.range(1).selectExpr(*columns)
    assert f"[{code}]" in failure(lambda: write(frame, stream, **given))
    assert (stream.messages, other.messages) == (0, 0)


def test_overwriting_purges_what_was_there_when_everything_is_stored(spark, new_stream):
    stream = new_stream(5, token="old")
    write(rows(spark, stream, 20), stream)
    given = {"publishStream": stream.name, "onOverwrite": "purge", **stream.write_options}
    frame = rows(spark, stream, 7).repartition(2)
    frame.write.format("jetstream").options(**given).mode("overwrite").save()
    assert stream.messages == 7
    assert stream.js.stream(stream.name).info().state.first_seq == 26


def test_a_streaming_table_in_complete_mode_replaces_its_earlier_results(
    spark, new_stream, tmp_path
):
    source, target = new_stream(100), new_stream(9, token="other", allow_direct=True)
    writer = (
        read_stream(spark, source, maxOffsetsPerTrigger=40)
        .groupBy((F.col("seq") % 4).alias("k"))
        .count()
        .select(F.to_json(F.struct("k", "count")).alias("data"))
        .writeStream.outputMode("complete")
        .format("jetstream")
        .options(subject=f"{target.name}.table", onOverwrite="purge", **target.write_options)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
    )
    to_its_end(writer.start)
    table = stored_from(target, 10)
    assert sorted(json.loads(data)["count"] for data in table) == [25] * 4
    assert target.messages == 9 + 4  # other subjects stay


def test_what_was_read_can_be_aggregated_and_published(spark, new_stream):
    source, target = new_stream(100), new_stream()
    frame = (
        spark.read.format("jetstream")
        .options(**source.read_options)
        .load()
        .groupBy((F.col("seq") % 4).alias("k"))
        .count()
        .select(
            F.concat(F.lit(f"{target.name}."), F.col("k").cast("string")).alias("subject"),
            F.to_json(F.struct("k", "count")).alias("data"),
        )
    )
    write(frame, target)
    assert {json.loads(data)["count"] for _, data, _ in stored(target)} == {25}
    assert target.messages == 4
