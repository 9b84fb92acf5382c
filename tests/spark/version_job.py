"""A Spark program that any supported PySpark runs: reads and writes, each compared with pandas.

Run with the PySpark that is to be tried first on ``PYTHONPATH``:
``python -m tests.spark.version_job SERVER_URL FOLDER``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pandas

import jetsync
from tests.spark.streaming import to_its_end

COUNT = 500


def main(url: str, folder: Path) -> None:
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    with jetsync.connect(url) as nc:
        checks = _Checks(spark, nc.jetstream(), url, folder)
        for name in (
            "batch_read",
            "batch_write",
            "stream_to_stream",
            "foreach_batch",
            "sql",
        ):
            getattr(checks, name)()
            print(f"{pyspark.__version__} {name}: equal", flush=True)
    spark.stop()


class _Checks:
    def __init__(self, spark: Any, js: Any, url: str, folder: Path) -> None:
        self.spark = spark
        self.js = js
        self.folder = folder
        self.where = {"servers": url, "stream": "SOURCE"}
        js.create_stream(name="SOURCE", subjects=["source.>"], allow_direct=True)
        js.create_stream(name="TARGET", subjects=["target.>"], allow_direct=True)
        self.fill()

    def fill(self) -> None:
        rows = [(f"source.{n % 5}", b"%d" % n) for n in range(COUNT)]
        self.js.publish_many(rows, msg_id=None).raise_for_failed()

    @property
    def source(self) -> Any:
        return self.stored("SOURCE", "source.>")

    def stored(self, stream: str, subject: str) -> Any:
        found = self.js.stream(stream).get_msgs(1, max_messages=100_000, subject=subject)
        return pandas.DataFrame({"data": sorted(bytes(message.data) for message in found)})

    def same(self, seen: Any, expected: Any) -> None:
        pandas.testing.assert_frame_equal(seen, expected)

    def batch_read(self) -> None:
        options = {**self.where, "filterSubjects": "source.1,source.3", "minPartitions": "3"}
        rows = self.spark.read.format("jetstream").options(**options).load().collect()
        seen = pandas.DataFrame({"data": sorted(bytes(row.data) for row in rows)})
        wanted = sorted(b"%d" % n for n in range(COUNT) if n % 5 in (1, 3))
        self.same(seen, pandas.DataFrame({"data": wanted}))

    def batch_write(self) -> None:
        frame = self.spark.read.format("jetstream").options(**self.where).load()
        (
            frame.selectExpr(
                "'target.batch' as subject", "data", "map('K', array(subject)) headers"
            )
            .write.format("jetstream")
            .option("servers", self.where["servers"])
            .mode("append")
            .save()
        )
        self.same(self.stored("TARGET", "target.batch"), self.source)

    def copy(self) -> None:
        writer = (
            self.spark.readStream.format("jetstream")
            .options(**self.where, maxOffsetsPerTrigger="200")
            .load()
            .selectExpr("'target.stream' as subject", "data", "headers")
            .writeStream.format("jetstream")
            .option("servers", self.where["servers"])
            .option("checkpointLocation", str(self.folder / "copy"))
            .queryName("copy")
            .trigger(availableNow=True)
        )
        to_its_end(writer.start, 300)

    def stream_to_stream(self) -> None:
        self.copy()
        self.same(self.stored("TARGET", "target.stream"), self.source)
        self.copy()
        self.fill()
        self.copy()
        self.same(self.stored("TARGET", "target.stream"), self.source)
        for path in (self.folder / "copy" / "commits").iterdir():
            path.unlink()
        self.copy()
        self.same(self.stored("TARGET", "target.stream"), self.source)

    def foreach_batch(self) -> None:
        attempts: list[int] = []

        def write(frame: Any, batch_id: int) -> None:
            (
                frame.selectExpr("'target.foreach' as subject", "data")
                .write.format("jetstream")
                .option("servers", self.where["servers"])
                .mode("append")
                .save()
            )
            attempts.append(batch_id)
            if len(attempts) == 1:
                raise RuntimeError("once")

        for _ in range(2):
            writer = (
                self.spark.readStream.format("jetstream")
                .options(**self.where)
                .load()
                .writeStream.foreachBatch(write)
                .option("checkpointLocation", str(self.folder / "foreach"))
                .trigger(availableNow=True)
            )
            try:
                to_its_end(writer.start, 300)
            except Exception:
                if len(attempts) != 1:
                    raise
        self.same(self.stored("TARGET", "target.foreach"), self.source)

    def sql(self) -> None:
        given = ", ".join(f"{name} '{value}'" for name, value in self.where.items())
        self.spark.sql(f"create temporary view source_view using jetstream options ({given})")
        count = self.spark.sql("select count(*) as n from source_view").collect()[0].n
        assert count == len(self.source)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
