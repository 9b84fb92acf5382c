"""What the source and the sink cost without Spark around them, side by side in one run.

    python -m benchmarks.spark.plain --rows 300000 --size 128 --peer-path venv/lib/.../site-packages

Readers and writers are called as Spark's Python workers call them, in this process, against one
server. What is read is a stream in files (in memory the server counts what lies before each range
one by one), what is written one in memory. For each case: rows per second, CPU seconds for a
million rows here and in the server, and the speed beside the case that its goal is compared with.
Each case runs ``--rounds`` times, in turns with the others; the medians are shown. ``--rtt`` puts a
link with that round trip (and for comparison one without) between this process and the server;
``--slow 10`` shows both in slow motion, like ``benchmarks.links``: then only round trips count, not
who shares the processors. The
peer is given and measured as in ``benchmarks.spark.sink``. ``--pin`` gives the server one processor
and this process another, as if they were two machines. ``--record`` keeps the figures for the page.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

import jetsync
from benchmarks.links.ways import LINES
from benchmarks.spark import record
from benchmarks.spark.common import make_stream, publish_rows
from benchmarks.spark.sink import GATHERED, peer
from benchmarks.spark.source import STREAM, deliver
from jetsync.server import NatsServer
from jetsync.spark import kv_lookup
from jetsync.spark.datasource import JetStreamDataSource
from tests.harness.conditioner import Link

TARGET = "TARGET"
WRITTEN = StructType().add("subject", "string").add("data", "binary")
READ = (
    StructType()
    .add("subject", "string")
    .add("data", "binary")
    .add("headers", MapType(StringType(), ArrayType(StringType())))
    .add("stream", "string")
    .add("seq", "long")
    .add("timestamp", "timestamp")
)
"""What the source gives by default (Spark's own parser of schemas needs a session)."""
LINE = LINES["fetch"]
"""Bytes a second of a link in slow motion, times how slow it is."""
ARROW_ROWS = 10_000
"""How many rows Spark hands over at a time."""


class Case:
    """One thing to measure, and what its speed is compared with."""

    def __init__(self, name: str, rows: int, run: Callable[[], None], beside: str = "") -> None:
        self.name, self.rows, self.run, self.beside = name, rows, run, beside
        self.speeds: list[float] = []
        self.ours: list[float] = []
        self.theirs: list[float] = []

    def measure(self, server_cpu: Callable[[], float]) -> None:
        began, ours, theirs = time.perf_counter(), time.process_time(), server_cpu()
        self.run()
        self.speeds.append(self.rows / (time.perf_counter() - began))
        self.ours.append((time.process_time() - ours) / self.rows * 1e6)
        self.theirs.append((server_cpu() - theirs) / self.rows * 1e6)

    @property
    def speed(self) -> float:
        return statistics.median(self.speeds)

    @property
    def figures(self) -> dict[str, float]:
        return {
            "speed": round(self.speed),
            "cpu": round(statistics.median(self.ours), 3),
            "server": round(statistics.median(self.theirs), 3),
        }

    def line(self, others: dict[str, Case]) -> str:
        cpu = (statistics.median(self.ours), statistics.median(self.theirs))
        line = f"{self.name:<30}{self.speed:>11,.0f}/s{cpu[0]:>8.2f}{cpu[1]:>8.2f}"
        other = others.get(self.beside)
        return line + (f"{self.speed / other.speed:8.2f} x {other.name}" if other else "")


def cpu_of(pid: int | None) -> float:
    """CPU seconds that a process has used so far."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def read(url: str, rows: int, **options: str) -> None:
    """Read the stream as the tasks of one Spark slot do, one after another."""
    source = JetStreamDataSource({"servers": url, "stream": STREAM, **options})
    reader = source.reader(READ)
    found = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
    assert found == rows, (found, rows)


def write(url: str, batches: list[pa.RecordBatch], **options: str) -> None:
    """Write batches as one task does."""
    source = JetStreamDataSource({"servers": url, **options})
    source.writer(WRITTEN, overwrite=False).write(iter(batches))


BUCKET = "LOOKED_UP"
KEYS = 5_000


def fill_bucket(js: Any, size: int) -> None:
    """Make the bucket whose keys are looked up."""
    js.create_key_value(bucket=BUCKET, storage="memory")
    rows = ((f"$KV.{BUCKET}.{key}", bytes(size)) for key in keys())
    js.publish_many(rows).raise_for_failed()


def keys() -> list[str]:
    return [f"k.{number}" for number in range(KEYS)]


def look_up_each(url: str) -> None:
    """Get the value of each key by a request of its own."""
    with jetsync.connect(url) as nc:
        bucket = nc.jetstream().key_value(BUCKET)
        assert all(bucket.get(key).value is not None for key in keys())


def look_up(url: str) -> None:
    assert len(kv_lookup(BUCKET, keys(), {"servers": url})) == KEYS


def rows_of(count: int, size: int) -> list[pa.RecordBatch]:
    made = []
    for first in range(0, count, ARROW_ROWS):
        numbers = range(first, min(count, first + ARROW_ROWS))
        data = [b"%0*d" % (size, number) for number in numbers]
        made.append(
            pa.RecordBatch.from_pydict(
                {"subject": [f"{TARGET}.x"] * len(data), "data": pa.array(data, pa.binary())}
            )
        )
    return made


def cases(chosen: argparse.Namespace, url: str, near: str, far: str) -> Iterator[Case]:
    """All cases, a case's comparison before it."""
    rows, size = chosen.rows, chosen.size
    yield Case("server to a bare client", rows, lambda: deliver(url, 1, rows))
    yield Case("source", rows, lambda: read(url, rows), "server to a bare client")
    if chosen.rtt:
        yield Case("source, link", rows, lambda: read(near, rows))
        yield Case("source, link with rtt", rows, lambda: read(far, rows), "source, link")
    batches = rows_of(rows, size)
    yield Case("sink, no ids", rows, lambda: write(url, batches, dedup="none"))
    yield Case("sink", rows, lambda: write(url, batches), "sink, no ids")
    yield Case("sink, atomic", rows, lambda: write(url, batches, atomic="chunk"), "sink")
    if chosen.rtt:
        yield Case("sink, link", rows, lambda: write(near, batches))
        yield Case("sink, link with rtt", rows, lambda: write(far, batches), "sink, link")
    yield Case("look up, one by one", KEYS, lambda: look_up_each(url))
    yield Case("look up, kv_lookup", KEYS, lambda: look_up(url), "look up, one by one")
    if chosen.peer_path:
        few = [SimpleNamespace(subject=f"{TARGET}.x", data=bytes(size))] * chosen.peer_rows
        for name, at_once in (("plain", 1), ("gathered", GATHERED)):
            publish = peer(url, chosen.peer_path, at_once)
            yield Case(f"nats-py, {name}", len(few), lambda publish=publish: publish(few), "sink")


def pin(pid: int | None, processor: int) -> None:
    """Keep a process and all of its threads on one processor."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread.name), {processor})


def renew(js: Any) -> None:
    """A server looks through the ids of a purged stream; a new one has none."""
    with contextlib.suppress(jetsync.StreamNotFoundError):
        js.delete_stream(TARGET)
    js.create_stream(name=TARGET, subjects=[f"{TARGET}.>"], storage="memory", allow_atomic=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rtt", type=float, default=0.0)
    parser.add_argument("--slow", type=float, default=1.0, help="slow motion of the links")
    parser.add_argument("--peer-path", default="")
    parser.add_argument("--peer-rows", type=int, default=10_000)
    parser.add_argument("--only", default="", help="words between |: cases that have one")
    parser.add_argument("--pin", action="store_true", help="a processor each for both sides")
    parser.add_argument("--record", action="store_true", help="keep it for docs/performance.md")
    chosen = parser.parse_args()
    with NatsServer(config={"max_pending": 2 * 2**30}) as server, contextlib.ExitStack() as links:
        near = far = server.url
        if chosen.rtt:
            line = LINE / chosen.slow if chosen.slow > 1 else None
            rtt = chosen.rtt * chosen.slow
            near = links.enter_context(Link(server.url, bandwidth=line)).url
            far = links.enter_context(Link(server.url, rtt=rtt, bandwidth=line)).url
        with jetsync.connect(server.url) as nc:
            js = nc.jetstream(timeout=60)
            make_stream(js, STREAM, "file")
            publish_rows(js, f"{STREAM}.x", chosen.rows, chosen.size)
            fill_bucket(js, chosen.size)
            all_cases = {case.name: case for case in cases(chosen, server.url, near, far)}
            words = chosen.only.split("|")
            used = [case for name, case in all_cases.items() if any(w in name for w in words)]
            if chosen.pin:
                pin(server.pid, 0)
                pin(os.getpid(), 1)
            for number in range(chosen.rounds + 1):
                for case in used:
                    renew(js)
                    case.measure(lambda: cpu_of(server.pid))
                    print(f"round {number}: {case.name}: {case.speeds[-1]:,.0f}", file=sys.stderr)
                    if not number:  # warms up
                        for figures in (case.speeds, case.ours, case.theirs):
                            figures.clear()
            print(f"{chosen.rows:,} rows of {chosen.size} bytes; CPU seconds for a million rows")
            print(f"{'case':<30}{'rows':>13}{'here':>8}{'server':>8}")
            for case in used:
                print(case.line({case.name: case for case in used}))
            if chosen.record:
                about = {
                    name: getattr(chosen, name)
                    for name in ("rows", "size", "rounds", "rtt", "slow")
                }
                how = ", pinned" if chosen.pin else ""
                record.keep({case.name + how: case.figures for case in used}, about)


if __name__ == "__main__":
    main()
