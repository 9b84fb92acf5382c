"""How much of its loopback rate each way of reading and writing keeps on a long link.

    python -m benchmarks.links --rtt 0.01 --slow 10 --messages 100000 --record
    python -m benchmarks.links --ways messages fetch --messages 100000

Every way runs with its default settings, in this process, through the same carrier of bytes (a
process of its own): once with no delay, once with the round trip asked for, in turns. The figure is
the rate on the long link divided by the rate without delay in the same round; the median of the
rounds is shown.

At full speed client, carrier and server share the processors, and two runs of the same thing
differ by up to two times. ``--slow 10`` shows the same link in slow motion: the line carries a
tenth of what the way carries on loopback (``LINES``) and the round trip is ten times longer, so
that as many bytes are under way, while the processors have ten times longer for them. Then only
round trips count.

Writes ``build/bench/links.json``; ``--record`` keeps the run for docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jetsync
from benchmarks.links import record
from benchmarks.links.ways import LINES, OBJECT, STREAM, WAYS
from jetsync.server import NatsServer
from tests.harness.conditioner import Link, LinkProcess

OUT = Path(__file__).parents[2] / "build" / "bench" / "links.json"
PATIENCE = 120.0
OBJECT_BYTES = 64 * 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    names = options.ways or list(WAYS)
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with NatsServer(config={"max_payload": 8 * 2**20}) as server, LinkProcess() as process:
        _prepare(server.url, options.messages, options.size)
        for number in range(1, options.rounds + 1):
            for name in names:
                near, far = (
                    _rate(server.url, process, name, rtt, options) for rtt in (0.0, options.rtt)
                )
                pairs[name].append((near, far))
                print(f"round {number}: {name} keeps {far / near:.0%}", file=sys.stderr, flush=True)
    run = record.run_of(
        {name: [_row(name, *pair, options) for pair in found] for name, found in pairs.items()},
        rtt=options.rtt,
        slow=options.slow,
        messages=options.messages,
        size=options.size,
        load=round(os.getloadavg()[0], 1),
    )
    _show(run)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(run, indent=1) + "\n")
    if options.record:
        record.keep(run)
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


def _rate(
    url: str, process: LinkProcess, name: str, rtt: float, options: argparse.Namespace
) -> float:
    """Units (messages, or bytes of objects) a second of one run, at full speed."""
    slow: float = options.slow
    line = LINES[name] / slow if slow > 1 else None
    with (
        Link(url, rtt=rtt * slow, bandwidth=line, process=process) as link,
        jetsync.connect(link.url, timeout=PATIENCE) as nc,
    ):
        nc.flush()
        js = nc.jetstream(timeout=PATIENCE)
        way = WAYS[name](js, options.messages, options.size)
        begun = time.perf_counter()
        units = way()
        return slow * units / (time.perf_counter() - begun)


def _row(name: str, near: float, far: float, options: argparse.Namespace) -> record.Row:
    units = OBJECT_BYTES if name.startswith("object") else options.messages
    return record.Row(near, far, (units / far - units / near) / options.rtt if options.rtt else 0.0)


def _show(run: dict[str, Any]) -> None:
    print(f"| way | without delay, /s | {run['rtt'] * 1000:g} ms of round trip, /s | kept | round "
          "trips |")  # fmt: skip
    print("| --- | --- | --- | --- | --- |")
    for name, way in run["ways"].items():
        least = way["ratio"] >= record.GOAL or name in record.WITHOUT_GOAL
        mark = "" if least else f" (goal {record.GOAL:.0%})"
        print(f"| {name} | {way['near']:,.0f} | {way['far']:,.0f} | {way['ratio']:.0%}{mark} "
              f"| {way['trips']:.1f} |")  # fmt: skip


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.links", description=__doc__)
    parser.add_argument("--rtt", type=float, default=0.01, help="round trip of the long link (s)")
    parser.add_argument(
        "--slow", type=float, default=1, help="how many times slower; 1: full speed"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of a message")
    parser.add_argument("--ways", nargs="+", choices=sorted(WAYS))
    parser.add_argument("--record", action="store_true", help="keep it for docs/performance.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
