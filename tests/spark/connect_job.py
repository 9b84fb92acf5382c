"""A program: Spark Connect reads a stream and writes another, in batches and as a stream.

``python -m tests.spark.connect_job SERVERS SOURCE TARGET CHECKPOINT``
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tests.spark.streaming import to_its_end


def main(servers: str, source: str, target: str, checkpoint: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    link = {"servers": servers, "stream": source}
    frame = spark.read.format("jetstream").options(**link).load()
    print(type(frame).__module__, frame.count(), frame.selectExpr("max(seq)").first()[0])
    changed = f"concat('{target}.', seq) as subject"
    sink = {"servers": servers, "publishStream": target}
    frame.selectExpr(changed, "data").write.format("jetstream").options(**sink).mode(
        "append"
    ).save()
    writer = (
        spark.readStream.format("jetstream")
        .options(**link)
        .load()
        .selectExpr(changed, "data")
        .writeStream.format("jetstream")
        .options(**sink)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
    to_its_end(writer.start)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
