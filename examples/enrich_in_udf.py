"""Enrichment in the executors: each order gets its customer's name from a key-value bucket.

    python enrich_in_udf.py --stream ORDERS --bucket customers --out enriched.parquet

Orders are JSON with a field ``customer``; the bucket has the name under that key. ``mapInArrow``
looks every customer up once per batch of rows, not once per row.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from jetsync import KeyNotFoundError
from jetsync.spark import kv


def enrich(
    servers: str, bucket: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that runs in the executors; it takes along names, never a connection."""

    def name_of(customer: str) -> str | None:
        try:
            return kv(bucket, {"servers": servers}).get(customer).value.decode()
        except KeyNotFoundError:
            return None

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            customers = batch.column("customer").to_pylist()
            names = {one: name_of(one) for one in set(customers) if one is not None}
            column = pa.array([names.get(one) for one in customers], pa.string())
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, column], names=[*batch.schema.names, "name"]
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
