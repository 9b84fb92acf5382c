"""What a span costs beside what the SDK takes for it: few Python functions of jetsync, and no more
of the SDK than for the same span made by hand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import jetsync
import jetsync.otel
from tests.harness.frames import frames

OURS = f"{Path(jetsync.__file__).parent}/"
BATCH = 1000


class Traced:
    """A connection whose spans are all sampled, and what the SDK exported of it."""

    def __init__(self, url):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("hand")
        jetsync.otel.instrument(tracer_provider=self.provider)
        try:
            self.nc = jetsync.connect(url)
        finally:
            jetsync.otel.uninstrument()

    def again(self, prefix: str, *late: str) -> Callable[[], None]:
        """Return what makes the last span of that name once more; ``late``: attributes that it gets
        when it is over."""
        span = [span for span in self.exporter.get_finished_spans() if span.name.startswith(prefix)]
        name, kind, attributes = span[-1].name, span[-1].kind, dict(span[-1].attributes or {})
        found = {key: attributes.pop(key) for key in late}

        def by_hand() -> None:
            made = self.tracer.start_span(name, None, kind, attributes, (), time.time_ns())
            if found:  # it goes with a message
                made.get_span_context()
                made.set_attributes(found)
            made.end()

        return by_hand


@pytest.fixture
def traced(url):
    made = Traced(url)
    with made.nc:
        yield made


@pytest.fixture
def consumers(js):
    """Make a consumer of enough messages of as many senders, with a connection."""
    rows = [
        ("spans", b"x", {"traceparent": f"00-{7:032x}-{n + 1:016x}-01"}) for n in range(13 * BATCH)
    ]
    js.create_stream(name="SPANS", subjects=["spans", "sent"], storage="memory")
    js.publish_many(rows).raise_for_failed()
    yield lambda nc: nc.jetstream().create_consumer("SPANS", max_ack_pending=-1)
    js.delete_stream("SPANS")


def fewest(call: Callable[[], object], within: str = "") -> Counter[str]:
    """The functions that a call enters when it does nothing that only some calls do."""
    call()  # what is worked out once is not counted
    return min((frames(call, within) for _ in range(5)), key=lambda entered: entered.total())


def test_a_span_enters_few_functions_of_jetsync_and_no_more_of_the_sdk_than_by_hand(
    traced, nc, consumers
):
    plain, observed = consumers(nc), consumers(traced.nc)
    js, observed_js = nc.jetstream(), traced.nc.jetstream()
    calls = {
        "receive SPANS": (
            lambda: plain.fetch(BATCH, timeout=30).ack(),
            lambda: observed.fetch(BATCH, timeout=30).ack(),
            (),
            19,
        ),
        "publish sent": (
            lambda: js.publish("sent", b"x"),
            lambda: observed_js.publish("sent", b"x"),
            ("messaging.nats.stream", "messaging.nats.stream_sequence"),
            21,
        ),
    }
    for name, (without, call, late, bound) in calls.items():
        ours = fewest(call, OURS) - fewest(without, OURS)
        assert ours.total() <= bound, (name, ours.most_common())
        added = fewest(call) - fewest(without)
        by_hand = fewest(traced.again(name, *late))
        assert added.total() - ours.total() <= by_hand.total(), (name, added - by_hand - ours)


def test_the_header_of_a_span_below_another_is_made_without_the_propagator(traced, consumers, js):
    """As in a handler, and in a request to a web server. Baggage goes with it all the same."""
    publish, tracer = traced.nc.jetstream().publish, traced.tracer
    with tracer.start_as_current_span("web") as web:
        entered = fewest(lambda: publish("sent", b"x"))
    assert entered["inject"] == 1, entered.most_common()  # that of the hooks
    sent = js.stream("SPANS").get_last_msg("sent").headers
    assert sent["traceparent"].split("-")[1] == f"{web.get_span_context().trace_id:032x}"
    with tracer.start_as_current_span("web"):
        token = context.attach(baggage.set_baggage("who", "me"))
        publish("sent", b"x")
        context.detach(token)
    assert js.stream("SPANS").get_last_msg("sent").headers["baggage"] == "who=me"
