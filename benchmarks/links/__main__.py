"""How much of its loopback rate each way of reading and writing keeps on a long link.

    python -m benchmarks.links --rtt 0.01 --rounds 3
    python -m benchmarks.links --ways messages fetch --messages 100000

Every way runs with its default settings, in this process, through the same carrier of bytes (a
process of its own): once with no delay, once with the round trip asked for, in turns. The figure is
the rate on the long link divided by the rate without delay in the same round; the median of the
rounds is shown. Writes ``build/bench/links.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jetsync
from benchmarks.links.ways import OBJECT, STREAM, WAYS
from jetsync.server import NatsServer
from tests.harness.conditioner import Link, LinkProcess

OUT = Path(__file__).parents[2] / "build" / "bench" / "links.json"
GOAL = 0.8
PATIENCE = 120.0
OBJECT_BYTES = 64 * 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    names = options.ways or list(WAYS)
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with NatsServer(config={"max_payload": 8 * 2**20}) as server, LinkProcess() as process:
        _prepare(server.url, options.messages, options.size)
        with (
            Link(server.url, process=process) as near,
            Link(server.url, rtt=options.rtt, process=process) as far,
        ):
            for number in range(1, options.rounds + 1):
                for name in names:
                    pair = [_rate(link.url, name, options) for link in (near, far)]
                    rates[name].append((pair[0], pair[1]))
                    print(
                        f"round {number}: {name} keeps {pair[1] / pair[0]:.0%}",
                        file=sys.stderr,
                        flush=True,
                    )
    rows = [_row(name, pairs) for name, pairs in rates.items()]
    _show(rows, options.rtt)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(
        json.dumps(
            {
                "rtt": options.rtt,
                "messages": options.messages,
                "size": options.size,
                "load": os.getloadavg(),
                "rows": rows,
            },
            indent=1,
        )
        + "\n"
    )
    return 0


def _prepare(url: str, messages: int, size: int) -> None:
    with jetsync.connect(url, timeout=PATIENCE) as nc:
        js = nc.jetstream()
        js.create_stream(name=STREAM, subjects=[f"{STREAM}.>"], storage="memory", allow_direct=True)
        payload = b"x" * size
        js.publish_many(((f"{STREAM}.a", payload) for _ in range(messages)), timeout=PATIENCE)
        js.create_stream(name="SINK", subjects=["sink.>"], storage="memory", max_msgs=1000)
        store = js.create_object_store(bucket="objects", storage="memory")
        store.put(OBJECT, os.urandom(OBJECT_BYTES))


def _rate(url: str, name: str, options: argparse.Namespace) -> float:
    """Units (messages, or bytes of objects) a second of one run."""
    with jetsync.connect(url, timeout=PATIENCE) as nc:
        nc.flush()
        js = nc.jetstream(timeout=PATIENCE)
        way = WAYS[name](js, options.messages, options.size)
        begun = time.perf_counter()
        units = way()
        return units / (time.perf_counter() - begun)


def _row(name: str, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    return {
        "way": name,
        "loopback": statistics.median(near for near, _ in pairs),
        "far": statistics.median(far for _, far in pairs),
        "ratio": statistics.median(far / near for near, far in pairs),
        "rounds": pairs,
    }


def _show(rows: list[dict[str, Any]], rtt: float) -> None:
    print(f"| way | without delay, /s | {rtt * 1000:g} ms of round trip, /s | kept |")
    print("| --- | --- | --- | --- |")
    for row in rows:
        mark = "" if row["ratio"] >= GOAL else f" (goal {GOAL:.0%})"
        print(f"| {row['way']} | {row['loopback']:,.0f} | {row['far']:,.0f} "
              f"| {row['ratio']:.0%}{mark} |")  # fmt: skip


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.links", description=__doc__)
    parser.add_argument("--rtt", type=float, default=0.01, help="round trip of the long link (s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of a message")
    parser.add_argument("--ways", nargs="+", choices=sorted(WAYS))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
