"""A batch that Spark repeats stores each row once, in every way there is to write it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from jetsync.jetstream.publish.content_ids import digest_rows
from jetsync.spark import publish_partition, reason
from tests.harness.soak import SOAKING
from tests.spark.streaming import read_stream, run_available, to_its_end

WINDOW = 3600.0


def copied(target):
    """The payloads under ``copy`` in the target, in the order in which they are stored."""
    found = target.js.stream(target.name).get_msgs(
        1, max_messages=10_000, subject=f"{target.name}.copy"
    )
    return [message.data for message in found]


def assert_equal_to_pandas(target, count):
    pandas = pytest.importorskip("pandas", reason="the extra dev; make test installs it")
    seen = pandas.DataFrame({"data": sorted(copied(target))})
    expected = pandas.DataFrame({"data": sorted(b"%d" % (i + 1) for i in range(count))})
    pandas.testing.assert_frame_equal(seen, expected)


@pytest.fixture
def target(new_stream):
    return new_stream(duplicate_window=WINDOW, allow_direct=True)


def by_data_frame(frame, target, **options):
    frame.write.format("jetstream").options(**target.write_options, **options).mode("append").save()


def by_publish_partition(frame, target):
    frame.foreachPartition(
        publish_partition(
            servers=target.url,
            subject_col="subject",
            data_col="data",
        )
    )


def test_a_function_of_foreach_batch_may_fail_after_it_has_written(
    spark, new_stream, target, tmp_path
):
    """In both ways at once, each into a stream of its own."""
    source = new_stream(20)
    other = new_stream(duplicate_window=WINDOW, allow_direct=True)
    ways = ((by_data_frame, target), (by_publish_partition, other))
    failures: list[int] = []

    def function(frame, batch_id):
        for write, stream in ways:
            rows = frame.select(F.lit(f"{stream.name}.copy").alias("subject"), "data")
            write(rows.repartition(2), stream)
        if not failures:
            failures.append(batch_id)
            raise RuntimeError("the function of this test fails once, after its writes")

    frame = read_stream(spark, source, maxOffsetsPerTrigger=10)
    with pytest.raises(PySparkException, match="fails once"):
        run_available(frame, function, tmp_path)
    for _, stream in ways:
        assert_equal_to_pandas(stream, 10)
    run_available(frame, function, tmp_path)
    for _, stream in ways:
        assert_equal_to_pandas(stream, 20)


def test_equal_rows_of_two_batches_and_of_two_named_writes_are_all_stored(
    spark, new_stream, target, tmp_path
):
    source = new_stream(4)
    frame = read_stream(spark, source, maxOffsetsPerTrigger=2)

    def function(frame, batch_id):
        rows = frame.select(
            F.lit(f"{target.name}.copy").alias("subject"), F.lit("same").alias("data")
        )
        by_data_frame(rows, target, queryId="first")
        by_data_frame(rows, target, queryId="second")

    run_available(frame, function, tmp_path)
    assert copied(target) == [b"same"] * 8


def copy_query(spark, source, target, checkpoint, read=None, **options):
    """Copy what is there and wait for the end."""
    frame = read_stream(spark, source, **(read or {}))
    if options.get("dedup") != "source":
        frame = frame.select(F.lit(f"{target.name}.copy").alias("subject"), "data")
    else:
        # As it was read: where a row comes from is what its id is made of.
        frame = frame.withColumn("subject", F.lit(f"{target.name}.copy"))
    writer = (
        frame.writeStream.format("jetstream")
        .options(**target.write_options, **options)
        .queryName("copy")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    to_its_end(writer.start)


def forget_that_it_is_done(checkpoint, batch_id="*"):
    """As after a crash between the sink's commit and Spark's own note that the batch is done."""
    commits = checkpoint / "commits"
    for path in {*commits.glob(f"{batch_id}"), *commits.glob(f".{batch_id}.crc")}:
        path.unlink()


def test_ids_by_source_do_not_depend_on_partitions_order_or_checkpoint(
    spark, new_stream, target, tmp_path
):
    source = new_stream(35)
    copy_query(spark, source, target, tmp_path / "one", {"minPartitions": 1}, dedup="source")
    assert_equal_to_pandas(target, 35)
    if SOAKING:
        forget_that_it_is_done(tmp_path / "one")
        copy_query(spark, source, target, tmp_path / "one", {"minPartitions": 4}, dedup="source")
        assert_equal_to_pandas(target, 35)
    # A new checkpoint begins at the first message.
    copy_query(spark, source, target, tmp_path / "two", {"minPartitions": 3}, dedup="source")
    assert_equal_to_pandas(target, 35)


def test_a_repeated_batch_of_the_same_options_is_cut_alike_after_deletions(
    spark, js, new_stream, target, tmp_path
):
    source = new_stream(35)
    read = {"minPartitions": 4, "failOnDataLoss": "false"}
    copy_query(spark, source, target, tmp_path, read)
    forget_that_it_is_done(tmp_path)
    js.stream(source.name).purge(seq=10)
    js.stream(source.name).delete_msg(20)
    copy_query(spark, source, target, tmp_path, read)
    assert_equal_to_pandas(target, 35)


def test_a_commit_marker_serves_one_checkpoint_and_fails_on_any_other(
    spark, js, new_stream, target, tmp_path
):
    source = new_stream(20)
    read = {"maxOffsetsPerTrigger": 10}
    options = {"commitMarker": "true", "queryId": "nightly", "dedup": "none"}
    first, second, older = tmp_path / "first", tmp_path / "second", tmp_path / "first"
    try:
        copy_query(spark, source, target, first, read, **options)
        assert_equal_to_pandas(target, 20)
        # The last batch again: it is left out, which is what the marker is for.
        forget_that_it_is_done(first, "1")
        copy_query(spark, source, target, first, read, **options)
        assert_equal_to_pandas(target, 20)
        # Another checkpoint under the same name.
        with pytest.raises(PySparkException) as caught:
            copy_query(spark, source, target, second, read, **options)
        assert reason(caught.value).startswith("[JETSYNC_COMMIT_MARKER]")
        assert "another checkpoint" in reason(caught.value)
        # An older copy of the checkpoint: its batch 1 was not planned yet, and gets other rows;
        # fewer, and then as many of the same size.
        for others in ({"maxOffsetsPerTrigger": 5}, read):
            forget_that_it_is_done(older, "1")
            for path in [older / "offsets" / "1", older / "offsets" / ".1.crc"]:
                path.unlink()
            if others is read:
                for seq in range(11, 21):
                    js.stream(source.name).delete_msg(seq)
                source.fill(10)
            with pytest.raises(PySparkException) as caught:
                copy_query(spark, source, target, older, others, **options)
            assert reason(caught.value).startswith("[JETSYNC_COMMIT_MARKER]")
        assert "as many" in reason(caught.value)
        if not SOAKING:
            return  # that one is older still makes no difference to Spark
        forget_that_it_is_done(older)
        for path in (older / "offsets").glob("*"):
            path.unlink()
        with pytest.raises(PySparkException) as caught:
            copy_query(spark, source, target, older, read, **options)
        assert "older copy" in reason(caught.value)
        assert_equal_to_pandas(target, 20)
    finally:
        js.delete_key_value("jetsync_spark")


def test_a_marker_says_whose_it_is_and_how_much_it_had(spark, js, new_stream, target, tmp_path):
    source = new_stream(3)
    try:
        read = {"minPartitions": 3}
        copy_query(spark, source, target, tmp_path, read, commitMarker="true")
        checkpoint = json.loads((tmp_path / "metadata").read_text())["id"]
        value = json.loads(js.key_value("jetsync_spark").get(f"spark.{checkpoint}").value)
        # Whatever tasks the rows came in, and in whatever order.
        rows = [{"subject": f"{target.name}.copy", "data": data} for data in (b"3", b"1", b"2")]
        digest = digest_rows(pa.RecordBatch.from_pylist(rows), None)
        assert value == {
            "batchId": 0,
            "checkpoint": checkpoint,
            "rows": 3,
            "bytes": 3,
            "digest": digest,
        }
    finally:
        js.delete_key_value("jetsync_spark")


def test_update_mode_is_written_by_foreach_batch(spark, new_stream, target, tmp_path):
    """Spark offers Python sinks no update mode; each changed row once per batch is this."""
    source = new_stream(20)
    counts = (
        read_stream(spark, source, maxOffsetsPerTrigger=10)
        .groupBy((F.col("seq") % 3).alias("rest"))
        .count()
        .select(
            F.lit(f"{target.name}.copy").alias("subject"),
            F.to_json(F.struct("rest", "count")).alias("data"),
        )
    )
    attempts: list[int] = []

    def publish(frame, batch_id):
        by_data_frame(frame, target)
        attempts.append(batch_id)
        if len(attempts) == 1:
            raise RuntimeError("the function of this test fails once, after its write")

    def run():
        writer = (
            counts.writeStream.outputMode("update")
            .foreachBatch(publish)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
        )
        to_its_end(writer.start)

    with pytest.raises(PySparkException, match="fails once"):
        run()
    run()
    seen = sorted((row["rest"], row["count"]) for row in map(json.loads, copied(target)))
    assert seen == [(0, 3), (0, 6), (1, 4), (1, 7), (2, 3), (2, 7)]
