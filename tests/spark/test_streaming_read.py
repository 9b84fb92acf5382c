"""spark.readStream.format("jetstream"): every message in exactly one batch, across restarts."""

from __future__ import annotations

import threading

import pytest
from pyspark.errors import PySparkException

import jetsync
from jetsync.server import NatsServer
from jetsync.spark import lag
from tests.harness.waiting import wait_until
from tests.spark.streaming import (
    Collected,
    going,
    needs_limits,
    offset_log,
    read_stream,
    run_available,
    to_its_end,
)


@needs_limits
def test_available_now_reads_in_limited_batches_and_a_restart_continues(
    spark, new_stream, tmp_path
):
    stream = new_stream(10)
    frame = read_stream(spark, stream, maxOffsetsPerTrigger=4, minPartitions=2)
    first = Collected()
    query = run_available(frame, first, tmp_path)
    assert [first.batches[i] for i in sorted(first.batches)] == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9, 10],
    ]
    assert lag(query) == {stream.name: {"latest": 10, "end": 10, "behind": 0}}

    nothing = Collected()
    run_available(frame, nothing, tmp_path)
    assert nothing.rows == []

    stream.fill(5)
    second = Collected()
    run_available(frame, second, tmp_path)
    assert second.rows == [11, 12, 13, 14, 15]


@needs_limits
def test_a_failed_batch_is_read_again_identically(spark, new_stream, tmp_path):
    stream = new_stream(10)
    frame = read_stream(spark, stream, maxOffsetsPerTrigger=4)
    failing = Collected(fail_on=1)
    with pytest.raises(PySparkException):
        run_available(frame, failing, tmp_path)
    stream.fill(10)
    again = Collected()
    run_available(frame, again, tmp_path)
    assert again.batches[1] == failing.batches[1] == [5, 6, 7, 8]
    assert failing.batches[0] + again.rows == list(range(1, 21))


@needs_limits
def test_latest_stays_pinned_although_the_first_batch_failed(spark, js, new_stream, tmp_path):
    """Spark asks for the initial offset again when it repeats the first batch."""
    stream = new_stream(5)
    stop = threading.Event()

    def publish_all_the_time():
        while not stop.wait(0.02):
            js.publish(f"{stream.name}.x", b"")

    publisher = threading.Thread(target=publish_all_the_time)
    publisher.start()
    try:
        # The poll interval lies between the two answers, so messages arrive between them.
        frame = read_stream(spark, stream, startingOffsets="latest", pollInterval="1s")
        failing = Collected(fail_on=0)
        writer = frame.writeStream.foreachBatch(failing).option("checkpointLocation", str(tmp_path))
        with pytest.raises(PySparkException, match="the sink of this test fails here"):
            to_its_end(writer.start)
        first = offset_log(tmp_path, 0)
        base, end = first["base"][stream.name], first["streams"][stream.name]["seq"]
        assert base < end, "nothing arrived between initialOffset and latestOffset"
        assert failing.batches[0] == list(range(base + 1, end + 1))
    finally:
        stop.set()
        publisher.join()
    again = Collected()
    run_available(frame, again, tmp_path)
    assert again.rows == list(range(base + 1, stream.last_seq + 1))


def test_latest_reads_only_what_comes_later(spark, new_stream, tmp_path):
    stream = new_stream(5)
    frame = read_stream(spark, stream, startingOffsets="latest")
    run_available(frame, nothing := Collected(), tmp_path)
    stream.fill(3)
    run_available(frame, later := Collected(), tmp_path)
    assert (nothing.rows, later.rows) == ([], [6, 7, 8])


@needs_limits
def test_what_filters_leave_out_is_noted_by_one_empty_batch(spark, new_stream, tmp_path):
    stream = new_stream(5)
    frame = read_stream(spark, stream, filterSubjects=f"{stream.name}.wanted")
    run_available(frame, Collected(), tmp_path)
    stream.fill(100, "other")
    run_available(frame, unwanted := Collected(), tmp_path)
    stream.fill(2, "wanted")
    stream.fill(3, "other")
    run_available(frame, wanted := Collected(), tmp_path)
    assert unwanted.batches == {1: []}
    assert offset_log(tmp_path, 1)["streams"][stream.name]["seq"] == 105
    assert wanted.rows == [106, 107]


@needs_limits
def test_two_streams_share_a_query_and_a_limit(spark, new_stream, tmp_path):
    one, two = new_stream(6), new_stream(3)
    options = {**one.read_options, "stream": f"{one.name},{two.name}"}
    frame = (
        spark.readStream.format("jetstream")
        .options(**options)
        .option("maxOffsetsPerTrigger", 6)
        .load()
    )
    sink = Collected("subject")
    run_available(frame, sink, tmp_path)
    assert len(sink.rows) == 9
    assert [len(batch) for batch in sink.batches.values()] == [6, 3]


def test_two_queries_of_one_frame_do_not_take_from_each_other(spark, new_stream, tmp_path):
    stream = new_stream(10)
    frame = read_stream(spark, stream, maxOffsetsPerTrigger=6)
    one, two = Collected(), Collected()
    run_available(frame, one, tmp_path / "one")
    stream.fill(2)
    run_available(frame, two, tmp_path / "two")
    assert (one.rows, two.rows) == (list(range(1, 11)), list(range(1, 13)))


def test_loss_ends_the_query_with_its_code(spark, js, new_stream, tmp_path):
    stream = new_stream(10)
    frame = read_stream(spark, stream)
    run_available(frame, Collected(), tmp_path)
    stream.fill(10)
    js.stream(stream.name).purge(seq=16)
    with pytest.raises(PySparkException, match=r"\[JETSYNC_DATA_LOSS\]"):
        run_available(frame, Collected(), tmp_path)
    lossy = read_stream(spark, stream, failOnDataLoss="false")
    run_available(lossy, sink := Collected(), tmp_path)
    assert sink.rows == [16, 17, 18, 19, 20]


def test_a_stream_made_again_ends_the_query_with_its_code(spark, js, new_stream, tmp_path):
    stream = new_stream(10)
    frame = read_stream(spark, stream)
    run_available(frame, Collected(), tmp_path)
    js.delete_stream(stream.name)
    stream.create()
    stream.fill(20)
    with pytest.raises(PySparkException, match=r"\[JETSYNC_STREAM_RECREATED\]"):
        run_available(frame, Collected(), tmp_path)
    lossy = read_stream(spark, stream, failOnDataLoss="false")
    run_available(lossy, sink := Collected(), tmp_path)
    assert sink.rows == list(range(1, 21))


def test_a_missing_stream_ends_the_query_with_its_code(spark, server, tmp_path):
    frame = (
        spark.readStream.format("jetstream")
        .option("servers", server.url)
        .option("stream", "NO_SUCH_STREAM")
        .load()
    )
    with pytest.raises(PySparkException, match=r"\[JETSYNC_STREAM_NOT_FOUND\]"):
        run_available(frame, Collected(), tmp_path)


def test_a_wrong_option_ends_the_query_with_its_code(spark, new_stream, tmp_path):
    frame = read_stream(spark, new_stream(), onCommit="ack")
    with pytest.raises(PySparkException, match=r"\[JETSYNC_MISSING_OPTION\]"):
        run_available(frame, Collected(), tmp_path)


def test_a_query_outlives_a_restart_of_the_server(spark, tmp_path):
    with NatsServer(store_dir=tmp_path / "store") as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s.>"])
        js.publish_many([("s.x", b"") for _ in range(100)])
        sink = Collected()
        writer = (
            spark.readStream.format("jetstream")
            .option("servers", server.url)
            .option("stream", "S")
            .option("requestTimeout", "1s")
            .load()
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )
        query = going(writer.start)
        try:
            wait_until(lambda: len(sink.rows) == 100, timeout=60)
            server.kill()
            server.start()
            js.publish_many([("s.x", b"") for _ in range(100)], timeout=20)
            wait_until(lambda: len(sink.rows) >= 200, timeout=60)
            assert sink.rows == list(range(1, 201))
            assert query.isActive
        finally:
            query.stop()
