"""JetStream to parquet: take what is in the stream, then end. Start it again for what came since.

python etl_to_parquet.py --stream ORDERS --out orders.parquet --checkpoint orders.checkpoint
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", default="nats://127.0.0.1:4222")
    parser.add_argument("--stream", default="ORDERS")
    parser.add_argument("--out", required=True)
    parser.add_argument("--checkpoint", required=True)
    given = parser.parse_args()

    # With local[2] alone, Spark would not repeat a task that failed.
    spark = SparkSession.builder.master("local[2,4]").appName("etl").getOrCreate()
    messages = (
        spark.readStream.format("jetstream")
        .option("servers", given.servers)
        .option("stream", given.stream)
        .option("maxOffsetsPerTrigger", 50_000)
        .load()
    )
    query = (
        messages.selectExpr("seq", "subject", "timestamp", "cast(data as string) as body")
        .writeStream.format("parquet")
        .option("path", given.out)
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{spark.read.parquet(given.out).count()} messages in {given.out}")
    spark.stop()


if __name__ == "__main__":
    main()
