"""Option commitMarker: a batch that was published completely is never published again."""

from __future__ import annotations

import contextlib
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import jetsync
from jetsync.spark.connection import link_of
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.marker import (
    BUCKET,
    Marker,
    Size,
    check_repeated,
    is_done,
    make_bucket,
    mark_done,
    read_marker,
    sum_sizes,
)
from tests.harness.soak import SOAKING
from tests.harness.waiting import wait_until
from tests.spark.streaming import read_stream, to_its_end


@pytest.fixture
def link(server, js):
    chosen = link_of({"servers": server.url})
    make_bucket(chosen, 1)
    yield chosen
    with contextlib.suppress(jetsync.BucketNotFoundError):  # a test deleted it
        js.delete_key_value(BUCKET)


def marker(batch_id, rows=100):
    return Marker(batch_id, "c", Size(rows, 10 * rows))


def test_the_marker_knows_the_last_batch_and_never_moves_back(link, js):
    assert read_marker(link, "q") is None
    mark_done(link, "q", marker(4))
    assert read_marker(link, "q") == (done := marker(4))
    assert [is_done(done, "q", "c", batch) for batch in (4, 5)] == [True, False]
    mark_done(link, "q", marker(2))
    assert read_marker(link, "q") == marker(4)
    assert read_marker(link, "another") is None


@pytest.mark.parametrize(("checkpoint", "batch"), [("c", 3), ("other", 4), ("other", 5)])
def test_a_marker_that_says_nothing_about_a_batch_is_an_error(checkpoint, batch):
    with pytest.raises(SparkSourceError) as caught:
        is_done(marker(4), "q", checkpoint, batch)
    assert caught.value.code == "JETSYNC_COMMIT_MARKER"


def size_of(*batches, subject=None):
    made = Size()
    for rows in batches:
        batch = pa.RecordBatch.from_pylist([{"subject": s, "data": data} for s, data in rows])
        made = made.plus(batch if subject is None else batch.select(["data"]), subject)
    return made


ROWS = [("a", b"1"), ("b", b"2"), ("b", b"2"), ("c", b"")]


def test_the_size_of_a_batch_is_that_of_its_rows_in_any_order_and_parts():
    whole = size_of(ROWS)
    assert size_of(ROWS[::-1]) == whole
    assert size_of(ROWS[:1], ROWS[1:]) == whole
    assert sum_sizes([size_of(ROWS[3:]), size_of(ROWS[:3])]) == whole
    assert (whole.rows, whole.data_bytes) == (4, 3)


@pytest.mark.parametrize(
    "others",
    [
        [("a", b"1"), ("b", b"2"), ("b", b"3"), ("c", b"")],
        [("a", b"1"), ("b", b"2"), ("a", b"2"), ("c", b"")],
        [("a", b"1"), ("a", b"1"), ("b", b"2"), ("c", b"")],
        [("a", b"2"), ("b", b"1"), ("b", b"2"), ("c", b"")],
    ],
)
def test_a_batch_of_other_rows_of_the_same_size_is_not_left_out(link, others):
    assert (size_of(others).rows, size_of(others).data_bytes) == (4, 3)
    mark_done(link, "q", Marker(4, "c", size_of(ROWS)))
    check_repeated(link, "q", Marker(4, "c", size_of(ROWS[2:], ROWS[:2])))
    with pytest.raises(SparkSourceError, match="as many") as caught:
        check_repeated(link, "q", Marker(4, "c", size_of(others)))
    assert caught.value.code == "JETSYNC_COMMIT_MARKER"


def test_a_fixed_subject_is_part_of_the_rows(link):
    assert size_of(ROWS, subject="x") != size_of(ROWS, subject="y")


def test_headers_are_part_of_the_rows():
    def size(value):
        batch = pa.RecordBatch.from_pydict(
            {
                "subject": ["a"],
                "data": pa.array([b"1"], pa.binary()),
                "headers": pa.array([[("k", value)]], pa.map_(pa.string(), pa.binary())),
            }
        )
        return Size().plus(batch, None)

    assert size(b"1") == size(b"1") != size(b"2")


@pytest.mark.parametrize("known", ['"rows": 4', '"rows": 4, "bytes": 3'])
def test_a_marker_of_an_earlier_version_is_compared_by_what_it_has(link, js, known):
    js.key_value(BUCKET).put("spark.q", b'{"batchId": 4, "checkpoint": "c", %s}' % known.encode())
    check_repeated(link, "q", Marker(4, "c", size_of(ROWS)))
    with pytest.raises(SparkSourceError):
        check_repeated(link, "q", Marker(4, "c", size_of(ROWS[1:])))


def test_a_marker_without_a_checkpoint_is_of_an_earlier_version(link, js):
    js.key_value(BUCKET).put("spark.q", b'{"batchId": 4, "rows": 100}')
    done = read_marker(link, "q")
    assert done is not None
    assert is_done(done, "q", "any", 4)


def test_a_bucket_that_exists_is_left_as_it_is(link, js):
    js.update_key_value(bucket=BUCKET, history=5)
    make_bucket(link, 1)
    assert js.key_value(BUCKET).status().history == 5


def test_what_is_not_a_marker_is_told(link, js):
    js.key_value(BUCKET).put("spark.q", b"?")
    with pytest.raises(SparkSourceError) as caught:
        read_marker(link, "q")
    assert caught.value.code == "JETSYNC_INVALID_OFFSET"


def test_a_missing_bucket_is_told(link, js):
    js.delete_key_value(BUCKET)
    for action in (lambda: read_marker(link, "q"), lambda: mark_done(link, "q", marker(0))):
        with pytest.raises(SparkSourceError) as caught:
            action()
        assert caught.value.code == "JETSYNC_STREAM_NOT_FOUND"


@pytest.mark.skipif(
    not SOAKING, reason="make soak; each commit, test_repeats.py repeats a batch without ids"
)
@pytest.mark.parametrize("with_marker", ["true", "false"])
def test_a_batch_repeated_after_the_stream_forgot_its_ids(
    spark, new_stream, tmp_path, link, with_marker
):
    """Without the marker the last batch is stored twice: that is what it is for."""
    source, target = new_stream(60), new_stream(duplicate_window=0.1, allow_direct=True)

    def copy():
        writer = (
            read_stream(spark, source, maxOffsetsPerTrigger=40)
            .select(F.lit(f"{target.name}.copy").alias("subject"), "data")
            .writeStream.format("jetstream")
            .options(commitMarker=with_marker, **target.write_options)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
        )
        to_its_end(writer.start)

    def copies():
        handle = target.js.stream(target.name)
        found = handle.get_msgs(1, max_messages=1000, subject=f"{target.name}.copy")
        return Counter(message.data for message in found)

    copy()
    assert set(copies().values()) == {1}
    assert len(copies()) == 60
    wait_until_ids_are_forgotten(target)
    # As after a crash between the sink's commit and Spark's own note that the batch is done.
    for path in (tmp_path / "commits").glob("*1*"):
        path.unlink()
    copy()
    last_batch = {b"%d" % i for i in range(41, 61)}
    expected = 1 if with_marker == "true" else 2
    assert {copies()[data] for data in last_batch} == {expected}


def wait_until_ids_are_forgotten(stream):
    """An id that came after all others is forgotten after them."""

    def taken():
        ack = stream.js.publish(f"{stream.name}.probe", b"", msg_id="probe")
        return not ack.duplicate

    assert taken()
    wait_until(taken, timeout=20)
