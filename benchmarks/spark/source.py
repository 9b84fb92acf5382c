"""How fast the source reads, beside Spark's own ceiling and what the server delivers.

    python -m benchmarks.spark.source --rows 1000000 --size 128

The ceiling is a data source of the same shape whose batches are ready before it is asked. The
delivery is as many raw sockets as there are partitions, each pulling its share from an ephemeral
consumer and counting bytes only. All run in turns in one Spark session, against one server.
"""

# pyspark is optional, so its base classes are unknown where it is not installed.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

import argparse
import json
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.spark.common import filled_server, measure, session, show
from jetsync.spark.schema import ddl

STREAM = "SOURCE"
BATCH = 10_000


class Prepared(DataSource):
    """The source's columns from ready Arrow buffers: what Spark takes at most."""

    @classmethod
    def name(cls) -> str:
        return "prepared"

    def schema(self) -> str:
        return ddl(())

    def reader(self, schema: Any) -> DataSourceReader:
        return PreparedReader(schema, {k: int(v) for k, v in self.options.items()})


class PreparedReader(DataSourceReader):
    def __init__(self, schema: Any, options: dict[str, int]) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(i) for i in range(self._options["partitions"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        left = self._options["rows"] // self._options["partitions"]
        batch = ready_batch(schema, self._options["size"])
        while left > 0:
            yield batch.slice(0, min(left, BATCH))
            left -= BATCH


def ready_batch(schema: pa.Schema, size: int) -> pa.RecordBatch:
    """One batch like those of a stream without headers."""
    columns = {
        "subject": pa.array([f"{STREAM}.x"] * BATCH),
        "data": pa.array([bytes(size)] * BATCH),
        "headers": pa.nulls(BATCH, schema.field("headers").type),
        "stream": pa.array([STREAM] * BATCH),
        "seq": pa.array(range(BATCH), pa.int64()),
        "timestamp": pa.array([0] * BATCH, schema.field("timestamp").type),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def deliver(url: str, first: int, rows: int) -> None:
    """Pull ``rows`` messages from sequence ``first`` on over a raw socket, counting bytes only."""
    where = urlsplit(url)
    name = uuid.uuid4().hex
    config = {
        "name": name,
        "ack_policy": "none",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": first,
        "mem_storage": True,
        "inactive_threshold": 10**9,
    }
    with socket.create_connection((where.hostname or "", where.port or 0)) as sock:
        sock.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB %s 1\r\n' % name.encode())
        ask(sock, f"CREATE.{STREAM}.{name}", name, {"stream_name": STREAM, "config": config})
        read_until(sock, b"consumer_create_response")
        ask(sock, f"MSG.NEXT.{STREAM}.{name}", name, {"batch": rows, "expires": 60 * 10**9})
        # A reply names the stream sequence of its message.
        read_until(sock, f"$JS.ACK.{STREAM}.{name}.1.{first + rows - 1}.".encode())


def ask(sock: socket.socket, operation: str, inbox: str, body: dict[str, Any]) -> None:
    payload = json.dumps(body).encode()
    head = f"PUB $JS.API.CONSUMER.{operation} {inbox} {len(payload)}\r\n"
    sock.sendall(head.encode() + payload + b"\r\n")


def read_until(sock: socket.socket, mark: bytes) -> None:
    tail = b""
    while mark not in tail:
        data = sock.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        tail = tail[-len(mark) :] + data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--read-methods", nargs="+", default=["consumer"])
    chosen = parser.parse_args()
    rows, size, parts = chosen.rows, chosen.size, chosen.partitions

    with (
        filled_server(STREAM, rows, size) as url,
        session(parts) as spark,
        ProcessPoolExecutor(parts) as pool,
    ):
        spark.dataSource.register(Prepared)
        given = {"rows": str(rows), "size": str(size), "partitions": str(parts)}

        def ceiling() -> None:
            frame = spark.read.format("prepared").options(**given).load()
            frame.write.format("noop").mode("overwrite").save()

        def delivery() -> None:
            share = rows // parts
            jobs = [pool.submit(deliver, url, 1 + i * share, share) for i in range(parts)]
            for job in jobs:
                job.result()

        def source(method: str) -> None:
            frame = (
                spark.read.format("jetstream")
                .option("servers", url)
                .option("stream", STREAM)
                .option("readMethod", method)
                .option("maxRecordsPerPartition", -(-rows // parts))
                .load()
            )
            frame.write.format("noop").mode("overwrite").save()

        cases: dict[str, Any] = {"Spark, ready buffers": ceiling, "server, raw sockets": delivery}
        for method in chosen.read_methods:
            cases[f"source, {method}"] = lambda method=method: source(method)
        print(f"{rows:,} rows of {size} bytes, {parts} partitions, {chosen.rounds} rounds in turns")
        show(measure(cases, rows, chosen.rounds), "Spark, ready buffers")


if __name__ == "__main__":
    main()
