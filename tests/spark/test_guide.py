"""The examples of the guide to Spark run as they stand, in their order, in one session."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq

import jetsync
from tests.spark.streaming import in_time

GUIDE = Path(__file__).parents[2] / "docs/guide/spark.md"
COUNT = 200


def make_world(js):
    """What the examples take for granted."""
    js.create_stream(name="ORDERS", subjects=["orders.>"])
    for name in ("RESULTS", "COPY", "COPIES", "COUNTS"):
        js.create_stream(name=name, subjects=[f"{name.lower()}.>"])
    js.create_stream(name="JOBS", subjects=["jobs"], retention="workqueue")
    js.create_consumer("JOBS", durable_name="workers", ack_policy="explicit")
    js.publish_many(
        ("orders.eu.new", json.dumps({"customer": f"c{n % 4}"}).encode()) for n in range(COUNT)
    ).raise_for_failed()
    js.publish_many(("jobs", b"%d" % n) for n in range(COUNT)).raise_for_failed()
    bucket = js.create_key_value(bucket="customers")
    for n in range(4):
        bucket.put(f"c{n}", f"Customer {n}".encode())


def here(code, url, folder):
    """The example with this test's servers and folder, and made to end."""
    code = code.replace("nats://a:4222,nats://b:4222", url).replace("nats://a:4222", url)
    code = re.sub(r'"(ck|\w+\.checkpoint|\w+\.parquet)"', rf'"{folder}/\1"', code)
    code = code.replace("work=do_one", "work=do_one, idle_timeout=0.5")
    # Spark Connect is another session, of another process: tests/spark/test_connect_server.py.
    return re.sub(r"spark = SparkSession.*\n", "", code)


def run_streams(spark, code, names):
    """Run an example that starts queries, let them do what there is to do, and end them."""

    def run():
        exec(code, names)
        queries = spark.streams.active
        for query in queries:
            query.processAllAvailable()
            query.stop()
        return queries

    return in_time(run)


def run_sql(spark, url):
    """The SQL of the guide, which takes two tables of the catalog for granted."""
    spark.sql("CREATE TABLE order_table USING jetstream")
    spark.sql("CREATE TABLE copy_table (subject string, data binary) USING jetstream")
    try:
        text = "".join(re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL))
        for statement in text.replace("nats://a:4222", url).split(";\n")[:-1]:
            spark.sql(statement)
    finally:
        spark.sql("DROP TABLE order_table")
        spark.sql("DROP TABLE copy_table")


def test_the_examples_run(spark, fresh_server, tmp_path, capsys):
    url = fresh_server.url
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    read, write, batch, update, helpers, to_files, look_up, bucket, queue, copy, connect = (
        compile(here(code, url, tmp_path), f"spark.md: {code[:40]!r}", "exec") for code in examples
    )
    with jetsync.connect(url) as nc:
        js = nc.jetstream(timeout=20)
        make_world(js)
        names = {"spark": spark, "do_one": print}

        exec(read, names)
        names["daily"] = names["orders"].selectExpr("'AA' carrier", "string(seq) id")
        (names["query"],) = run_streams(spark, write, names)
        assert js.stream("RESULTS").info().state.messages == COUNT
        exec(batch, names)
        assert js.stream("RESULTS").get_last_msg("results.batch").seq == COUNT + 100
        js.stream("RESULTS").purge(subject="results.batch")

        run_streams(spark, update, names)
        assert js.stream("COUNTS").get_last_msg("counts.c0").data == b"%d" % (COUNT // 4)

        names["df"] = spark.range(10).selectExpr("string(id) as body")
        exec(helpers, names)
        assert names["df"].mapInArrow(names["enrich"], "body string").count() == 10
        behind = names["lag"](names["query"])["ORDERS"]
        assert behind == {"latest": COUNT, "end": COUNT, "behind": 0}
        stored = js.stream("RESULTS").get_msg(1)
        assert stored.subject == "results.AA"
        assert stored.headers["Nats-Msg-Id"] == json.loads(stored.data)["id"]
        assert js.stream("RESULTS").info().state.messages == COUNT
        assert js.stream("ORDERS").info().state.messages == COUNT + 10

        run_streams(spark, to_files, names)
        assert pq.read_table(tmp_path / "orders.parquet").num_rows == COUNT + 10

        js.stream("ORDERS").purge(subject="orders.new")
        exec(look_up, names)
        assert names["named"].where("name = 'Customer ' || substr(customer, 2)").count() == COUNT

        exec(bucket, names)
        assert js.key_value("customers").get("copy.c3").value == b"Customer 3"
        assert names["changes"].where("key = 'c1'").head().revision == 2

        exec(queue, names)
        assert js.stream("JOBS").info().state.messages == 0

        run_streams(spark, copy, names)
        assert js.stream("COPY").get_msg(COUNT).subject == "copy.orders.eu.new"
        assert js.stream("COPY").info().state.messages == COUNT
        spark.streams.removeListener(names["listener"])

        run_sql(spark, url)
        assert js.stream("COPIES").info().state.messages == COUNT - 100 + COUNT

        exec(connect, names)
        assert "orders.eu.new" in capsys.readouterr().out
