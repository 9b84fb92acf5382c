"""What tracing and metrics cost: CPU of each way with spans left out, sampled at times and always,
and with a provider of meters.

    python -m benchmarks.tracing --rounds 24 --ways publish fetch fetch_each

One process has a connection for each setting; they take turns in each round, and CPU seconds of the
process are compared with those of the connection without either. A cell is the median of what a
round adds, with its quartiles. The senders of stored messages have not sampled them, and callbacks
follow them. ``messages`` has no spans: its difference says how far the figures can be believed.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
)
from opentelemetry.trace import Link, SpanContext, SpanKind

import jetsync
import jetsync.otel
from jetsync.server import NatsServer

STORED = 20_000
DATA = b"x" * 128
SINGLE = 2000
"""Single calls in a row."""
BEFORE = 256
"""Calls before the clock starts, so many that the durations which are recorded at once after a rest
are recorded by then: a program that calls all the time is measured."""
SETTINGS: dict[str, tuple[Sampler | None, bool]] = {
    "none sampled": (ParentBased(ALWAYS_OFF), False),
    "1 % sampled": (ParentBasedTraceIdRatio(0.01), False),
    "all sampled": (ALWAYS_ON, False),
    "none sampled, metrics": (ParentBased(ALWAYS_OFF), True),
    "1 % sampled, metrics": (ParentBasedTraceIdRatio(0.01), True),
    "metrics alone": (None, True),
}
"""The sampler of a provider of tracers (None: there is no such one), and whether there is one of
meters."""
Work = Callable[[jetsync.Connection], float]
"""Does its part for a connection and returns the CPU seconds that one unit of it took."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tracing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=14)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    options = parser.parse_args(arguments)
    with NatsServer() as server, contextlib.ExitStack() as stack:
        connections = {"off": stack.enter_context(jetsync.connect(server.url))}
        _fill(connections["off"])
        for name, (sampler, is_metered) in SETTINGS.items():
            tracers: trace.TracerProvider = trace.NoOpTracerProvider()
            if sampler is not None:
                provider = TracerProvider(sampler=sampler)
                provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
                stack.callback(provider.shutdown)
                tracers = provider
            meters = MeterProvider([InMemoryMetricReader()]) if is_metered else None
            jetsync.otel.instrument(tracer_provider=tracers, meter_provider=meters)
            connections[name] = stack.enter_context(jetsync.connect(server.url))
            jetsync.otel.uninstrument()
        print(f"| way | CPU without | {' | '.join(SETTINGS)} |")
        print("| --- | --- |" + " --- |" * len(SETTINGS))
        for way in options.ways:
            print(_row(way, _measured(WAYS[way], connections, options.rounds)), flush=True)
    print("| of the SDK alone | CPU |\n| --- | --- |")
    for name, seconds in _sdk_alone(options.rounds).items():
        print(f"| {name} | {seconds * 1e6:.3g} µs |")
    return 0


def _sdk_alone(rounds: int) -> dict[str, float]:
    """What the SDK takes for what jetsync asks of it, called in a loop of nothing else."""
    provider = TracerProvider(sampler=ALWAYS_ON)
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    tracer = provider.get_tracer("benchmark")
    meter = MeterProvider([InMemoryMetricReader()]).get_meter("benchmark")
    histogram = meter.create_histogram("duration", "s")
    attributes = {f"messaging.attribute.{n}": "value" for n in range(6)}
    more = {f"messaging.attribute.{n}": "value" for n in range(9)}

    def span(links: int = 0) -> None:
        made = [Link(SpanContext(7, n + 1, is_remote=True)) for n in range(links)]
        tracer.start_span("publish", None, SpanKind.PRODUCER, more, made).end()

    calls: dict[str, tuple[Callable[[], object], int]] = {
        "a span with 9 attributes": (span, 500),
        "the same with 128 links": (lambda: span(128), 50),
        "the record of a duration with 6 attributes": (
            lambda: histogram.record(0.001, attributes),
            1000,
        ),
    }
    found = {}
    for name, (call, count) in calls.items():
        rates = [_clocked(lambda: [call() for _ in range(count)], count) for _ in range(rounds)]  # noqa: B023
        found[name] = statistics.median(rates)
    provider.shutdown()
    return found


def _measured(
    work: Work, connections: dict[str, jetsync.Connection], rounds: int
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in connections}
    names = list(connections)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            nc = connections[name]
            for _ in range(BEFORE):
                nc.publish("sink", DATA)
            nc.flush()
            seconds = work(nc)
            if number:  # the first round makes what is kept
                found[name].append(seconds)
    return found


def _row(way: str, found: dict[str, list[float]]) -> str:
    off = found["off"]
    cells = [f"{statistics.median(off) * 1e6:.4g} µs"]
    for name in SETTINGS:
        pairs = list(zip(off, found[name], strict=True))
        low, middle, high = statistics.quantiles([on / base - 1 for base, on in pairs], n=4)
        more = statistics.median(on - base for base, on in pairs)
        cells.append(f"{middle:+.0%} ({low:+.0%} to {high:+.0%}), {more * 1e6:+.3g} µs")
    return f"| {way} | {' | '.join(cells)} |"


def _fill(nc: jetsync.Connection) -> None:
    js = nc.jetstream(timeout=30)
    js.create_stream(name="SENT", subjects=["sent"], storage="memory", max_consumers=-1)
    js.create_stream(name="SINK", subjects=["sink"], storage="memory", max_msgs=1000)
    js.create_key_value(bucket="KEPT", storage="memory")
    nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
    rows = [("sent", DATA, {"traceparent": f"00-{7:032x}-{n + 1:016x}-00"}) for n in range(STORED)]
    js.publish_many(rows).raise_for_failed()


def _clocked(work: Callable[[], object], units: int) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) / units


def _consumer(nc: jetsync.Connection) -> jetsync.Consumer:
    return nc.jetstream().create_consumer("SENT", max_ack_pending=-1)


def _fetch(size: int, calls: int, *, each: bool = False) -> Work:
    def work(nc: jetsync.Connection) -> float:
        consumer = _consumer(nc)

        def fetch() -> None:
            for _ in range(calls):
                batch = consumer.fetch(size, timeout=30)
                if each:
                    for msg in batch:
                        msg.ack()
                else:
                    batch.ack()

        return _clocked(fetch, calls)

    return work


def _next(nc: jetsync.Connection) -> float:
    consumer = _consumer(nc)

    def take() -> None:
        for _ in range(SINGLE):
            consumer.next(timeout=30).ack()

    return _clocked(take, SINGLE)


def _ack_sync(nc: jetsync.Connection) -> float:
    batch = _consumer(nc).fetch(SINGLE, timeout=30)

    def confirm() -> None:
        for msg in batch:
            msg.ack_sync()

    return _clocked(confirm, SINGLE)


def _messages(nc: jetsync.Connection) -> float:
    consumer = _consumer(nc)

    def iterate() -> None:
        with consumer.messages(stop_after=STORED) as messages:
            for msg in messages:
                msg.ack()

    return _clocked(iterate, STORED)


def _consume(nc: jetsync.Connection) -> float:
    consumer, done, count = _consumer(nc), threading.Event(), 5000
    left = iter(range(count - 1))

    def handle(msg: jetsync.JetStreamMsg) -> None:
        msg.ack()
        if next(left, None) is None:
            done.set()

    def consume() -> None:
        with consumer.consume(handle, stop_after=count):
            done.wait(60)

    return _clocked(consume, count)


def _calls(count: int, call: Callable[[jetsync.Connection], object]) -> Work:
    def work(nc: jetsync.Connection) -> float:
        def calls() -> None:
            for _ in range(count):
                call(nc)
            nc.flush()

        return _clocked(calls, count)

    return work


def _publish(nc: jetsync.Connection) -> float:
    js = nc.jetstream()
    return _clocked(lambda: [js.publish("sink", DATA) for _ in range(SINGLE)], SINGLE)


def _publish_async(nc: jetsync.Connection) -> float:
    js = nc.jetstream()
    return _clocked(
        lambda: jetsync.wait([js.publish_async("sink", DATA) for _ in range(5000)], 60), 5000
    )


def _publish_many(nc: jetsync.Connection) -> float:
    js, rows = nc.jetstream(), [("sink", DATA)] * 1000
    return _clocked(lambda: [js.publish_many(rows) for _ in range(10)], 10)


def _key_value(nc: jetsync.Connection) -> float:
    kv = nc.jetstream().key_value("KEPT")
    return _clocked(lambda: [(kv.put("k", DATA), kv.get("k")) for _ in range(SINGLE)], SINGLE)


WAYS: dict[str, Work] = {
    "fetch": _fetch(1000, 20),
    "fetch_each": _fetch(1000, 20, each=True),
    "fetch100": _fetch(100, 100),
    "fetch1": _fetch(1, SINGLE),
    "next": _next,
    "ack_sync": _ack_sync,
    "messages": _messages,
    "consume": _consume,
    "publish": _publish,
    "publish_async": _publish_async,
    "publish_many": _publish_many,
    "core_publish": _calls(5000, lambda nc: nc.publish("sink", DATA)),
    "request": _calls(SINGLE, lambda nc: nc.request("echo", DATA)),
    "key_value": _key_value,
}


if __name__ == "__main__":
    sys.exit(main())
