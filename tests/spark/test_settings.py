"""What Spark's users type beside options: names, triggers, SQL; and that several cores read."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from jetsync.spark import reason
from tests.spark.streaming import read_stream


def copy_of(spark, source, target):
    return read_stream(spark, source).select(F.lit(f"{target.name}.copy").alias("subject"), "data")


def test_every_setting_of_a_streaming_write_is_taken(spark, new_stream, tmp_path):
    source, target = new_stream(10), new_stream()
    query = (
        copy_of(spark, source, target)
        .writeStream.format("jetstream")
        .options(**target.write_options)
        .queryName("orders")
        .partitionBy("subject")
        .outputMode("append")
        .option("path", "/somewhere")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="1 second")
        .start()
    )
    query.processAllAvailable()
    query.stop()
    assert target.messages == 10


def test_sql_reads_and_writes(spark, new_stream):
    source, target = new_stream(10), new_stream()
    where = f"servers '{source.url}'"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW source_view USING jetstream "
        f"OPTIONS ({where}, stream '{source.name}', columns 'seq,data')"
    )
    assert spark.sql("SELECT max(seq) AS last FROM source_view WHERE seq <= 7").head().last == 7
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW target_view USING jetstream "
        f"OPTIONS ({where}, stream '{target.name}', columns 'subject,data')"
    )
    assert spark.sql("SELECT * FROM target_view").count() == 0


def test_without_options_several_tasks_read(spark, new_stream):
    stream = new_stream(20_000)
    frame = spark.read.format("jetstream").options(**stream.read_options).load()
    assert frame.rdd.getNumPartitions() == 8
    assert frame.count() == 20_000


def test_the_sentence_of_an_error_is_found_in_what_spark_raises(spark, new_stream):
    stream = new_stream()
    frame = spark.range(3).selectExpr("'nowhere.at.all' subject", "'x' data")
    with pytest.raises(PySparkException) as caught:
        frame.write.format("jetstream").options(**stream.write_options).mode("append").save()
    assert reason(caught.value).startswith(
        "[JETSYNC_NO_SUBJECT] no stream takes subject 'nowhere.at.all'"
    )
    with pytest.raises(PySparkException) as caught:
        spark.read.format("jetstream").option("maxOffsetsPerTrigger", 1).load().count()
    assert "is for streaming reads only" in reason(caught.value)
