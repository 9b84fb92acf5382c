"""How much of the rate of a bare loop over ``messages()`` a worker keeps, with the same handler.

    python -m benchmarks.workers --rounds 5
    python -m benchmarks.workers --handlers nothing cpu-100 --threads 1 8 --prefetch 0 512

In each round every handler runs in turns in a bare loop (``for msg in consumer.messages():
handler(msg); msg.ack()``, default settings), and in a Worker with so many threads and messages held
(0: its default). All of them read the same messages of one stream, each with a durable consumer of
its own. Wall and CPU time of this process are taken between the first and the last handler; the
figure is the rate of the worker divided by that of the loop in the same round, the median of the
rounds.

A handler is ``nothing``, ``cpu-N`` (N microseconds of Python), ``free-N`` (the same without the
interpreter's lock) or ``sleep-N``.
Writes ``build/bench/workers.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jetsync
from jetsync.server import NatsServer
from jetsync.worker import Worker

OUT = Path(__file__).parents[2] / "build" / "bench" / "workers.json"
GOAL = 0.8
HANDLERS = ("nothing", "cpu-12", "cpu-100", "cpu-1000", "free-200", "sleep-1000")
PATIENCE = 120.0
SECONDS = 3.0
"""How long a run of the loop takes at most; a handler that takes longer gets fewer messages."""

_numbers = itertools.count(1)

Handler = Callable[[jetsync.JetStreamMsg], object]


class Costs(NamedTuple):
    """What one message cost, in microseconds: on the wall, and of the processors."""

    wall: float
    cpu: float


class Meter:
    """Calls a handler ``count`` times, and knows what that cost from the first to the last call."""

    def __init__(self, handler: Handler, count: int) -> None:
        self._handler, self._count = handler, count
        self._calls, self._ends = itertools.count(1), itertools.count(1)
        self.over = threading.Event()
        self.costs = Costs(0.0, 0.0)

    def __call__(self, msg: jetsync.JetStreamMsg) -> None:
        if next(self._calls) == 1:
            self._begun = time.perf_counter(), time.process_time()
        self._handler(msg)
        if next(self._ends) == self._count:
            wall, cpu = time.perf_counter() - self._begun[0], time.process_time() - self._begun[1]
            self.costs = Costs(wall / self._count * 1e6, cpu / self._count * 1e6)
            self.over.set()


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    ways = [(threads, held) for threads in options.threads for held in options.prefetch]
    rows: list[dict[str, Any]] = []
    with NatsServer() as server, jetsync.connect(server.url, timeout=PATIENCE) as nc:
        js = nc.jetstream(timeout=PATIENCE)
        js.create_stream(name="WORK", subjects=["work"], storage="memory")
        js.publish_many(("work", b"x" * options.size) for _ in range(options.messages))
        for name in options.handlers:
            handler, micros = _handler(name)
            count = min(options.messages, int(SECONDS * 1e6 / max(micros, 1.0)))
            loops: list[Costs] = []
            found: dict[tuple[int, int], list[Costs]] = {way: [] for way in ways}
            for _ in range(options.rounds):
                with _Consumer(js) as consumer:
                    loops.append(_loop(consumer, Meter(handler, count)))
                for threads, held in ways:
                    with _Consumer(js) as consumer:
                        meter = Meter(handler, count)
                        found[threads, held].append(_worker(consumer, meter, threads, held))
            for way, costs in found.items():
                rows.append(_row(name, *way, loops, costs))
                _show(rows[-1], len(rows) == 1)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"load": os.getloadavg(), "rows": rows}, indent=1) + "\n")
    return 0


class _Consumer:
    """A durable consumer, for one run."""

    def __init__(self, js: jetsync.JetStream) -> None:
        self._js, self._name = js, f"run-{next(_numbers)}"

    def __enter__(self) -> jetsync.Consumer:
        return self._js.create_consumer("WORK", durable_name=self._name, max_ack_pending=5000)

    def __exit__(self, *_: object) -> None:
        self._js.delete_consumer("WORK", self._name)


def _loop(consumer: jetsync.Consumer, meter: Meter) -> Costs:
    with consumer.messages() as messages:
        for msg in messages:
            meter(msg)
            msg.ack()
            if meter.over.is_set():
                break
    return meter.costs


def _worker(consumer: jetsync.Consumer, meter: Meter, threads: int, held: int) -> Costs:
    with Worker(consumer, meter, threads=threads, prefetch=held or None):
        assert meter.over.wait(PATIENCE)
    return meter.costs


def _handler(name: str) -> tuple[Handler, float]:
    """Return a handler and how many microseconds it takes."""
    if name == "nothing":
        return lambda _msg: None, 0.0
    kind, _, text = name.partition("-")
    micros = float(text)
    if kind == "sleep":
        return lambda _msg: time.sleep(micros / 1e6), micros
    if kind == "free":
        data = bytes(_times(lambda n: hashlib.sha256(bytes(n)), micros, 4096))
        return lambda _msg: hashlib.sha256(data), micros
    if kind == "cpu":
        times = _times(lambda n: sum(_steps(n)), micros, 64)
        return lambda _msg: sum(_steps(times)), micros
    raise SystemExit(f"no such handler: {name}")


def _steps(count: int) -> Iterator[int]:
    yield from range(count)


def _times(work: Callable[[int], object], micros: float, start: int) -> int:
    """Return the size at which ``work(size)`` takes so many microseconds of a processor."""
    best = []
    size = start * 16
    for _ in range(20):
        begun = time.thread_time()
        for _ in range(10):
            work(size)
        best.append((time.thread_time() - begun) / 10)
    return max(1, int(size * micros / 1e6 / min(best)))


def _row(
    name: str, threads: int, held: int, loops: Sequence[Costs], costs: Sequence[Costs]
) -> dict[str, Any]:
    pairs = list(zip(loops, costs, strict=True))
    return {
        "handler": name,
        "threads": threads,
        "prefetch": held,
        "loop": [statistics.median(each) for each in zip(*loops, strict=True)],
        "worker": [statistics.median(each) for each in zip(*costs, strict=True)],
        "ratio": statistics.median(loop.wall / worker.wall for loop, worker in pairs),
        "cpu_ratio": statistics.median(loop.cpu / worker.cpu for loop, worker in pairs),
        "ratios": [loop.wall / worker.wall for loop, worker in pairs],
    }


def _show(row: dict[str, Any], is_first: bool) -> None:
    if is_first:
        print("| handler | threads | held | loop, us (CPU) | worker, us (CPU) | rate kept | rounds "
              "| CPU kept |")  # fmt: skip
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    (loop, loop_cpu), (worker, worker_cpu) = row["loop"], row["worker"]
    held = row["prefetch"] or 2 * row["threads"]
    print(f"| {row['handler']} | {row['threads']} | {held} | {loop:.1f} ({loop_cpu:.1f}) "
          f"| {worker:.1f} ({worker_cpu:.1f}) | {row['ratio']:.2f} "
          f"| {' '.join(f'{each:.2f}' for each in row['ratios'])} | {row['cpu_ratio']:.2f} |",
          flush=True)  # fmt: skip


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    parser.add_argument("--handlers", nargs="+", default=list(HANDLERS))
    parser.add_argument("--threads", nargs="+", type=int, default=[8])
    parser.add_argument("--prefetch", nargs="+", type=int, default=[0], help="0: the default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of a message")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
