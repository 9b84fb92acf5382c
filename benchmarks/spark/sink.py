"""How fast the sink writes, beside what a user would write with nats-py in ``foreachPartition``.

    python -m benchmarks.spark.sink --rows 1000000 --size 128 --peer-path venv/lib/.../site-packages

``--peer-path`` is a folder that has nats-py; without it only our own ways are measured. The peer is
measured on fewer rows (``--peer-rows``): its speed does not depend on their number. "plain" awaits
one publish after the other, "gathered" awaits 500 at once. All run in turns in one Spark session,
against one server; each row goes to one memory stream, made anew for each measurement (a server
keeps the ids of a purged one, and its garbage collector goes through them again and again for
the next run). Every way waits for every confirmation.
The ceiling is Spark's own: the same rows into a writer that does nothing with the Arrow batches.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

import jetsync
from benchmarks.spark.common import filled_server, make_stream, session
from jetsync.spark import publish_partition

STREAM = "SINK"
GATHERED = 500


class Nowhere(DataSource):
    """A sink that looks at nothing: what Spark hands over at most."""

    @classmethod
    def name(cls) -> str:
        return "nowhere"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return NowhereWriter()


class NowhereWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def peer(url: str, path: str, gathered: int) -> Callable[[Iterable[Any]], None]:
    """What a user writes for ``foreachPartition`` with nats-py: a loop of its own per partition."""

    def publish(rows: Iterable[Any]) -> None:
        sys.path.append(path)
        import nats

        async def run() -> None:
            nc = await nats.connect(url)
            js = nc.jetstream(timeout=60)
            waiting = []
            for row in rows:
                message = js.publish(row.subject, bytes(row.data))
                if gathered == 1:
                    await message
                    continue
                waiting.append(message)
                if len(waiting) == gathered:
                    await asyncio.gather(*waiting)
                    waiting = []
            await asyncio.gather(*waiting)
            await nc.close()

        asyncio.run(run())

    return publish


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-path", default="")
    parser.add_argument("--peer-rows", type=int, default=100_000)
    chosen = parser.parse_args()

    with filled_server(STREAM, 0, chosen.size) as url, session(chosen.partitions) as spark:
        spark.dataSource.register(Nowhere)
        with jetsync.connect(url) as nc:
            # The server tidies up behind an account's last stream: one always stays.
            make_stream(nc.jetstream(timeout=60), "KEPT")

        def rows(count: int) -> Any:
            frame = spark.range(0, count, 1, chosen.partitions).selectExpr(
                f"'{STREAM}.x' subject",
                f"cast(lpad(cast(id as string), {chosen.size}, '0') as binary) data",
            )
            return frame.cache()

        many, few = rows(chosen.rows), rows(chosen.peer_rows)
        many.count(), few.count()

        def sink(**options: str) -> Callable[[], None]:
            return lambda: (
                many.write.format("jetstream").options(servers=url, **options).mode("append").save()
            )

        cases: dict[str, tuple[int, Callable[[], None]]] = {
            "Spark, writes nowhere": (
                chosen.rows,
                lambda: many.write.format("nowhere").mode("append").save(),
            ),
            "sink, ids by content": (chosen.rows, sink()),
            "sink, no ids": (chosen.rows, sink(dedup="none")),
            "publish_partition": (
                chosen.peer_rows,
                lambda: few.foreachPartition(publish_partition(servers=url)),
            ),
        }
        if chosen.peer_path:
            for name, size in (("plain", 1), ("gathered", GATHERED)):
                cases[f"nats-py, {name}"] = (
                    chosen.peer_rows,
                    lambda size=size: few.foreachPartition(peer(url, chosen.peer_path, size)),
                )
        print(f"{chosen.rows:,} rows of {chosen.size} bytes, {chosen.partitions} partitions")
        show(measure(cases, chosen.rounds, lambda: empty(url)))


def empty(url: str) -> None:
    """Every measurement begins with a new stream."""
    with jetsync.connect(url) as nc:
        js = nc.jetstream(timeout=60)
        js.delete_stream(STREAM)
        make_stream(js, STREAM)


def measure(
    cases: dict[str, tuple[int, Callable[[], None]]], rounds: int, before: Callable[[], None]
) -> dict[str, list[float]]:
    """Run every case once to warm up, then in turns; return rows per second of each round."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, (rows, case) in cases.items():
            before()
            began = time.perf_counter()
            case()
            speed = rows / (time.perf_counter() - began)
            print(f"  round {number}: {name}: {speed:,.0f} rows/s", file=sys.stderr, flush=True)
            if number:  # round 0 warms up
                found[name].append(speed)
    return found


def show(found: dict[str, list[float]]) -> None:
    """Print the median and the best of each case, and how often it has the default sink's speed."""
    ours = statistics.median(found["sink, ids by content"])
    print(f"{'case':<28}{'median rows/s':>16}{'best':>16}{'sink is faster':>16}")
    for name, speeds in found.items():
        median = statistics.median(speeds)
        print(f"{name:<28}{median:>16,.0f}{max(speeds):>16,.0f}{ours / median:>15.1f}x")


if __name__ == "__main__":
    main()
