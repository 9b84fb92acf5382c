"""How fast the demo's query from stream to parquet is when its processes have started.

    python -m benchmarks.spark.demo --rounds 5 --record

The demo's own session, data and query; each round is the query anew, into another folder. For each
round: its seconds, and the rows per second of each whole micro-batch as Spark reports them.
``--record`` keeps the median of the whole batches behind the first round for the page, and what the
first round and the start of Spark took.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import jetsync
from benchmarks.spark import record
from jetsync.cli import demo_spark
from jetsync.cli.demo_data import Flights, find_flights_csv
from jetsync.server import NatsServer

STREAM = "FLIGHTS"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-rows", type=int, default=100_000)
    parser.add_argument("--master", default="local[2,4]")
    parser.add_argument("--record", action="store_true", help="keep it for docs/performance.md")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, NatsServer(store_dir=folder + "/nats") as server:
        with jetsync.connect(server.url) as nc:
            js = nc.jetstream(timeout=60)
            js.create_stream(name=STREAM, subjects=["flights.>"], allow_direct=True)
            flights = Flights.read(find_flights_csv(), None)
            js.publish_many(flights.messages(), timeout=600).raise_for_failed()
        work = Path(folder)
        spark = demo_spark.Spark(chosen.master, work=work, log=work / "spark.log")
        began = time.perf_counter()
        spark.start()
        started = time.perf_counter() - began
        try:
            seconds, speeds = [], []
            for number in range(chosen.rounds):
                began = time.perf_counter()
                query = demo_spark.copy_to_parquet(
                    spark.session,
                    {"servers": server.url, "stream": STREAM},
                    rows_per_batch=chosen.batch_rows,
                    path=work / f"parquet-{number}",
                    checkpoint=work / f"checkpoint-{number}",
                )
                query.awaitTermination()
                seconds.append(time.perf_counter() - began)
                speeds.append(
                    [
                        float(batch["processedRowsPerSecond"])
                        for batch in query.recentProgress
                        if batch["numInputRows"] == chosen.batch_rows
                    ]
                )
                each = ", ".join(f"{speed:,.0f}" for speed in speeds[-1])
                print(f"round {number}: {seconds[-1]:.1f} s; batches: {each} rows/s", flush=True)
        finally:
            spark.stop()
    warm = [speed for batches in speeds[1:] for speed in batches]
    print(f"Spark started in {started:.1f} s; warm batches: median {statistics.median(warm):,.0f}")
    if chosen.record:
        figures = {
            "speed": round(statistics.median(warm)),
            "best": round(max(warm)),
            "start": round(started, 1),
            "first": round(seconds[0], 1),
        }
        about = {"rows": len(flights), "size": 250, "rounds": chosen.rounds, "rtt": 0.0}
        record.keep({"demo, stream to parquet": figures}, about)


if __name__ == "__main__":
    main()
