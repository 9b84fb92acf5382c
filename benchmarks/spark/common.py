"""What the Spark benchmarks share: a session, a server with a stream, rounds, and a table."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jetsync
from jetsync.server import NatsServer

__all__ = ["filled_server", "make_stream", "measure", "publish_rows", "session", "show"]

HERE = Path(__file__).resolve().parents[2]
_LARGE = {"max_pending": 2 * 2**30}
"""A sender that is faster than its receiver must not be cut off."""


@contextlib.contextmanager
def session(slots: int = 2) -> Iterator[Any]:
    """Give a local Spark session whose Python workers find this checkout."""
    from pyspark.sql import SparkSession

    seen = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), seen])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    made = (
        SparkSession.builder.master(f"local[{slots}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    try:
        yield made
    finally:
        made.stop()


def publish_rows(js: Any, subject: str, count: int, size: int) -> None:
    """Store ``count`` messages of ``size`` bytes under one subject."""
    payload = bytes(size)
    report = js.publish_many(((subject, payload) for _ in range(count)), msg_id=None, timeout=600)
    report.raise_for_failed()


def make_stream(js: Any, stream: str, storage: str = "memory") -> None:
    """Make a stream with the subjects ``<stream>.>``."""
    js.create_stream(name=stream, subjects=[f"{stream}.>"], storage=storage, allow_direct=True)


@contextlib.contextmanager
def filled_server(stream: str, count: int, size: int) -> Iterator[str]:
    """Give the URL of a server with one memory stream of ``count`` messages (0: just empty)."""
    with NatsServer(config=_LARGE) as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=60)
        make_stream(js, stream)
        publish_rows(js, f"{stream}.x", count, size)
        yield server.url


def measure(
    cases: Mapping[str, Callable[[], None]], rows: int, rounds: int
) -> dict[str, list[float]]:
    """Run every case once to warm up, then in turns; return rows per second of each round."""
    for case in cases.values():
        case()
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            began = time.perf_counter()
            case()
            found[name].append(rows / (time.perf_counter() - began))
    return found


def show(found: Mapping[str, list[float]], compared_with: str) -> None:
    """Print the median and the best of each case, and its share of one of them."""
    whole = statistics.median(found[compared_with])
    print(f"{'case':<28}{'median rows/s':>16}{'best':>16}{'share':>8}")
    for name, speeds in found.items():
        median = statistics.median(speeds)
        print(f"{name:<28}{median:>16,.0f}{max(speeds):>16,.0f}{median / whole:>8.0%}")
