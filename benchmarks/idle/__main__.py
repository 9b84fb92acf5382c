"""What idle consumers cost: CPU and switches of threads over four numbers of them.

    python -m benchmarks.idle --points 1 10 100 1000 --seconds 20
    python -m benchmarks.idle --ways messages --points 1000

Each point runs in a process of its own, on one connection: so many consumers of one stream with
nothing in it, each read by ``messages()`` on a thread, or by ``consume()``, with default settings.
After the first pulls have ended, which last 30 s, CPU time and switches are read with getrusage
over ``--seconds``.
Writes ``build/bench/idle.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jetsync
from jetsync.server import NatsServer

OUT = Path(__file__).parents[2] / "build" / "bench" / "idle.json"
WAYS = ("messages", "consume")
SETTLING = 36.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.url:
        print(json.dumps(_measure(options)))
        return 0
    rows: list[dict[str, Any]] = []
    print("| way | consumers | CPU, % of a core | CPU ms a minute each | switches a second each |")
    print("| --- | --- | --- | --- | --- |")
    for way in options.ways:
        for point in options.points:
            with NatsServer() as server:
                command = [sys.executable, "-m", "benchmarks.idle", "--url", server.url]
                command += ["--ways", way, "--points", str(point)]
                command += ["--seconds", str(options.seconds)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
            row = json.loads(done.stdout)
            rows.append(row)
            print(
                f"| {way} | {point} | {row['cpu'] * 100:.2f} | {row['cpu'] * 6e4 / point:.2f} "
                f"| {row['switches'] / point:.2f} |",
                flush=True,
            )
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"load": os.getloadavg(), "rows": rows}, indent=1) + "\n")
    return 0


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    (way,), (point,) = options.ways, options.points
    with jetsync.connect(options.url, timeout=60) as nc, contextlib.ExitStack() as stack:
        js = nc.jetstream(timeout=60)
        js.create_stream(name="IDLE", subjects=["idle"], storage="memory", max_consumers=-1)
        threads = []
        for _ in range(point):
            consumer = js.create_consumer("IDLE", ack_policy="none", mem_storage=True)
            if way == "consume":
                stack.enter_context(consumer.consume(lambda _msg: None))
                continue
            stream = stack.enter_context(consumer.messages())
            threads.append(threading.Thread(target=list, args=(stream,), daemon=True))
            threads[-1].start()
        time.sleep(SETTLING)
        before, begun = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        time.sleep(options.seconds)
        after, seconds = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - begun
        figures = {
            "way": way,
            "point": point,
            "cpu": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds,
            "switches": (after.ru_nvcsw - before.ru_nvcsw) / seconds,
            "threads": threading.active_count(),
        }
        stack.pop_all()  # closing the connection ends all of them
    return figures


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle", description=__doc__)
    parser.add_argument("--points", nargs="+", type=int, default=[1, 10, 100, 1000])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--url", default="", help="measure one point here, at this server")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
