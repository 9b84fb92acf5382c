"""Helpers inside real tasks and on real queries."""

from __future__ import annotations

from collections import Counter

from jetsync.spark import connection, lag, publish_partition, register
from tests.harness.waiting import wait_until
from tests.spark.streaming import Collected, read_stream


def test_tasks_of_one_worker_share_a_connection_and_leave_it_open(spark, new_stream):
    stream = new_stream()
    options, subject = {"servers": stream.url}, f"{stream.name}.x"

    def publish(rows):
        import os

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
    handle = stream.js.stream(stream.name)
    found = Counter(bytes(handle.get_msg(seq).data) for seq in range(1, stream.last_seq + 1))
    assert found == {b"%d" % i: 1 for i in range(100)}


def test_lag_grows_while_a_query_may_not_read_everything(spark, new_stream, tmp_path):
    stream = new_stream(10)
    sink = Collected()
    query = (
        read_stream(spark, stream, maxOffsetsPerTrigger=4, minOffsetsPerTrigger=4)
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        wait_until(
            lambda: lag(query) == {stream.name: {"latest": 10, "end": 8, "behind": 2}}, timeout=60
        )
    finally:
        query.stop()


def test_registering_by_hand_works_too(spark, new_stream):
    register(spark)
    stream = new_stream(3)
    frame = spark.read.format("jetstream").options(**stream.read_options).load()
    assert frame.count() == 3
