"""What Spark's users type beside options: names, triggers, SQL; and that several cores read."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from jetsync.spark import reason
from tests.spark.streaming import going, read_stream, to_its_end


def copy_of(spark, source, target):
    return read_stream(spark, source).select(F.lit(f"{target.name}.copy").alias("subject"), "data")


def test_every_setting_of_a_streaming_write_is_taken(spark, new_stream, tmp_path):
    source, target = new_stream(10), new_stream()
    writer = (
        copy_of(spark, source, target)
        .writeStream.format("jetstream")
        .options(**target.write_options)
        .queryName("orders")
        .partitionBy("subject")
        .outputMode("append")
        .option("path", "/somewhere")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="1 second")
    )
    query = going(writer.start)
    query.processAllAvailable()
    query.stop()
    assert target.messages == 10


def test_every_setting_of_a_streaming_read_is_taken(spark, new_stream, tmp_path):
    source, target = new_stream(10), new_stream()
    frame = (
        spark.readStream.format("jetstream")
        .schema("seq bigint, data binary")
        .option("maxOffsetsPerTrigger", 4)
        .options(**source.read_options)
        .load()
    )
    assert frame.isStreaming
    writer = (
        frame.selectExpr(f"'{target.name}.copy' as subject", "data")
        .writeStream.format("jetstream")
        .options(**target.write_options)
        .option("checkpointLocation", str(tmp_path))
        .trigger(once=True)  # Spark still takes it, and reads everything in one batch
    )
    query = to_its_end(writer.start)
    assert (target.messages, query.lastProgress["numInputRows"]) == (10, 10)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (lambda writer: writer.outputMode("update"), "does not support Update mode"),
        (lambda writer: writer.trigger(continuous="1 second"), "does not support continuous"),
    ],
)
def test_what_spark_offers_no_python_sink_is_told_by_spark(
    spark, new_stream, tmp_path, setting, sentence
):
    source = new_stream(1)
    copied = copy_of(spark, source, source).writeStream.format("jetstream")
    writer = copied.options(**source.write_options).option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match=f"(?i){sentence}"):
        to_its_end(setting(writer).start)


def test_sql_reads_and_writes_views(spark, new_stream):
    source, target = new_stream(10), new_stream(allow_direct=True)
    where = f"servers '{source.url}'"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW source_view USING jetstream "
        f"OPTIONS ({where}, stream '{source.name}', columns 'seq,data')"
    )
    assert spark.sql("SELECT max(seq) AS last FROM source_view WHERE seq <= 7").head().last == 7
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW target_view (subject string, data binary) "
        f"USING jetstream OPTIONS ({where}, publishStream '{target.name}')"
    )
    spark.sql(
        f"INSERT INTO target_view SELECT '{target.name}.view', data FROM source_view WHERE seq > 6"
    )
    spark.sql(f"INSERT INTO target_view VALUES ('{target.name}.view', CAST('x' AS binary))")
    stored = target.js.stream(target.name).get_msgs(1, max_messages=100)
    assert sorted(bytes(message.data) for message in stored) == [b"10", b"7", b"8", b"9", b"x"]


@pytest.fixture
def tables(spark, tmp_path):
    """Tables of the catalog; they keep their columns, but none of the options."""
    for name, columns in {
        "table_read": "",
        "table_written": "(subject string, data binary)",
    }.items():
        spark.sql(f"CREATE TABLE {name} {columns} USING jetstream")
    yield
    for name in ("table_read", "table_written"):
        spark.sql(f"DROP TABLE {name}")


def test_sql_reads_and_writes_tables_of_the_catalog(spark, new_stream, tables):
    source, target = new_stream(10), new_stream(allow_direct=True)
    server = f"'servers' = '{source.url}'"
    spark.sql(
        f"INSERT INTO table_written WITH ({server}, 'publishStream' = '{target.name}') "
        f"SELECT '{target.name}.table', data "
        f"FROM table_read WITH ({server}, 'stream' = '{source.name}') WHERE seq <= 3"
    )
    stored = target.js.stream(target.name).get_msgs(1, max_messages=100)
    assert sorted(bytes(message.data) for message in stored) == [b"1", b"2", b"3"]


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


SECRET = "hidden-word"


def shown(spark, frame):
    """Everything that Spark shows of a frame, and of the queries it has run so far."""
    plan = frame._jdf.queryExecution()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    details = [executions.apply(n).physicalPlanDescription() for n in range(executions.size())]
    return "\n".join([plan.toString(), *details])


def test_a_password_in_servers_is_in_no_plan(spark, new_stream):
    source = new_stream(3)
    url = source.url.replace("nats://", f"nats://ali:{SECRET}@")
    options = {"servers": url, "stream": source.name}
    frame = spark.read.format("jetstream").options(**options).load()
    assert frame.count() == 3
    assert SECRET not in shown(spark, frame)


def test_spark_hides_the_option_url_in_statements_too(spark, new_stream):
    source = new_stream()
    url = source.url.replace("nats://", f"nats://ali:{SECRET}@")
    statement = (
        "CREATE TEMPORARY VIEW hidden_view (seq bigint) "
        f"USING jetstream OPTIONS (url '{url}', stream '{source.name}')"
    )
    said = spark.sql(f"EXPLAIN EXTENDED {statement}").head()[0]
    assert "hidden_view" in said
    assert SECRET not in said
