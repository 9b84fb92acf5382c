"""JetStream to JetStream: change messages on the way; each is stored once, whatever is repeated.

    python stream_to_stream.py --stream ORDERS --checkpoint large.checkpoint

The target stream has to exist and to take the subjects ``large.>``. A message's id is the sequence
that it came from, so not even a query that is started anew stores it twice (within the target's
duplicate window).
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", default="nats://127.0.0.1:4222")
    parser.add_argument("--stream", default="ORDERS")
    parser.add_argument("--checkpoint", required=True)
    given = parser.parse_args()

    spark = SparkSession.builder.master("local[2,4]").appName("large orders").getOrCreate()
    orders = (
        spark.readStream.format("jetstream")
        .option("servers", given.servers)
        .option("stream", given.stream)
        .load()
    )
    query = (
        orders.selectExpr(
            "concat('large.', subject) as subject",
            "data",
            "concat_ws('/', stream, seq) as msg_id",
            "cast(get_json_object(cast(data as string), '$.amount') as double) as amount",
        )
        .where("amount >= 100")
        .drop("amount")
        .writeStream.format("jetstream")
        .option("servers", given.servers)
        .option("dedup", "column")
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    read = sum(progress["numInputRows"] for progress in query.recentProgress)
    print(f"{read} orders read")
    spark.stop()


if __name__ == "__main__":
    main()
