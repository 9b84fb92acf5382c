"""What a user sees first of an error in Spark: the sentence, at each place where he may meet it."""

from __future__ import annotations

import pytest

from jetsync.spark import reason
from tests.spark.streaming import read_stream, to_its_end

SOON = 5
"""The line on which the sentence stands at the latest, behind two of Spark's and one frame."""

TO_NOWHERE = ("'nowhere.a' as subject", "data")


def read(spark, stream, **options):
    return spark.read.format("jetstream").options(**stream.read_options, **options).load()


def write(frame, stream, **options):
    sink = frame.write.format("jetstream").options(**stream.write_options, **options)
    sink.mode("append").save()


def copy(frame, stream, checkpoint, **options):
    sink = frame.writeStream.format("jetstream").options(**stream.write_options, **options)
    to_its_end(sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start)


def planning_a_read(spark, stream, _):
    read(spark, stream, topic="x").collect()


def planning_a_write(spark, stream, _):
    write(spark.range(1).selectExpr("'x' subject", "'' data"), stream, topic="x")


def task_of_a_write(spark, stream, _):
    write(read(spark, stream).selectExpr(*TO_NOWHERE), stream)


def streaming_read(spark, stream, folder):
    copy(read_stream(spark, stream, topic="x").select("subject", "data"), stream, folder)


def planning_a_streaming_write(spark, stream, folder):
    copy(read_stream(spark, stream).select("subject", "data"), stream, folder, topic="x")


def task_of_a_streaming_write(spark, stream, folder):
    copy(read_stream(spark, stream).selectExpr(*TO_NOWHERE), stream, folder)


def foreach_batch(spark, stream, folder):
    def publish(frame, _):
        write(frame.selectExpr(*TO_NOWHERE), stream)

    sink = read_stream(spark, stream).writeStream.foreachBatch(publish)
    to_its_end(sink.option("checkpointLocation", str(folder)).trigger(availableNow=True).start)


@pytest.mark.parametrize(
    ("work", "latest"),
    [
        (planning_a_read, SOON),
        (planning_a_write, SOON),
        (task_of_a_write, SOON),
        (streaming_read, 1),
        (planning_a_streaming_write, SOON),
        (task_of_a_streaming_write, SOON),
        # Spark shows the way from the JVM to the user's function and back before it.
        (foreach_batch, None),
    ],
)
def test_the_sentence_is_among_the_first_lines(spark, new_stream, tmp_path, work, latest):
    with pytest.raises(Exception, match="JETSYNC_") as caught:
        work(spark, new_stream(1), tmp_path)
    lines = str(caught.value).splitlines()
    first = next(number for number, line in enumerate(lines, 1) if "[JETSYNC_" in line)
    assert first <= (latest or len(lines)), str(caught.value)
    said = reason(caught.value)
    assert said.startswith(("[JETSYNC_UNKNOWN_OPTION]", "[JETSYNC_NO_SUBJECT]"))
    assert "\n" not in said
