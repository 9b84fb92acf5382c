"""Enrichment in the executors: each order gets its customer's name from a key-value bucket.

    python enrich_in_udf.py --stream ORDERS --bucket customers --out enriched.parquet

Orders are JSON with a field ``customer``; the bucket has the name under that key. ``mapInArrow``
asks for a thousand different customers at a time, not for each by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from jetsync.spark import kv_lookup


def enrich(
    servers: str, bucket: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that runs in the executors; it takes along names, never a connection."""

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            customers = batch.column("customer").to_pylist()
            found = kv_lookup(bucket, customers, {"servers": servers})
            names = [found[one].decode() if one in found else None for one in customers]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(names, pa.string())], names=[*batch.schema.names, "name"]
            )

    return look_up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", default="nats://127.0.0.1:4222")
    parser.add_argument("--stream", default="ORDERS")
    parser.add_argument("--bucket", default="customers")
    parser.add_argument("--out", required=True)
    given = parser.parse_args()

    spark = SparkSession.builder.master("local[2,4]").appName("enrichment").getOrCreate()
    orders = (
        spark.read.format("jetstream")
        .option("servers", given.servers)
        .option("stream", given.stream)
        .load()
        .selectExpr("seq", "get_json_object(cast(data as string), '$.customer') as customer")
    )
    enriched = orders.mapInArrow(
        enrich(given.servers, given.bucket), "seq bigint, customer string, name string"
    )
    enriched.write.mode("overwrite").parquet(given.out)
    written = spark.read.parquet(given.out)
    print(f"{written.where('name is not null').count()} of {written.count()} orders have a name")
    spark.stop()


if __name__ == "__main__":
    main()
