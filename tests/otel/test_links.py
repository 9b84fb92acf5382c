"""The links of the span of a fetch: the SDK's in all that it shows, and made when it shows them."""

from __future__ import annotations

import copy
import json

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

import jetsync
import jetsync.otel
from jetsync.client import parent_texts, read_parents, trace_parents
from jetsync.otel.links import LaterLinks

SENDERS = 20


@pytest.fixture
def fetched(url, js):
    """Make a function that fetches messages of 20 senders and returns the one span of that."""
    js.create_stream(name="LINKED", subjects=["linked"], storage="memory")
    headers = [{"traceparent": f"00-{7:032x}-{n + 1:016x}-01"} for n in range(SENDERS)]
    js.publish_many([("linked", b"", header) for header in headers]).raise_for_failed()

    def fetch(limits=None, **options):
        exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=ALWAYS_ON, span_limits=limits)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        jetsync.otel.instrument(tracer_provider=provider, **options)
        try:
            with jetsync.connect(url) as nc:
                consumer = nc.jetstream().create_consumer("LINKED")
                assert len(consumer.fetch(SENDERS, timeout=9)) == SENDERS
        finally:
            jetsync.otel.uninstrument()
        (span,) = exporter.get_finished_spans()
        return span

    yield fetch
    js.delete_stream("LINKED")


def ids(span):
    return [link.context.span_id for link in span.links]


def test_they_are_made_when_they_are_read(fetched, monkeypatch):
    made = []
    init = trace.Link.__init__
    with monkeypatch.context() as patch:
        patch.setattr(
            trace.Link, "__init__", lambda *args, **more: (made.append(1), init(*args, **more))[1]
        )
        span = fetched()
        assert made == []
        assert ids(span) == ids(span) == list(range(1, SENDERS + 1))
        assert len(made) == SENDERS  # once
    assert all(link.context.is_remote and link.context.is_valid for link in span.links)


def test_they_show_as_those_of_the_sdk_do(fetched):
    span = fetched()
    shown = json.loads(span.to_json())["links"]
    assert [int(link["context"]["span_id"], 16) for link in shown] == ids(span)
    assert all(link["attributes"] == {} for link in shown)
    assert ids(copy.deepcopy(span)) == ids(span)
    assert span.dropped_links == 0


@pytest.mark.parametrize(
    ("limits", "options", "there", "dropped"),
    [
        (None, {"max_links": 3}, [1, 2, 3], SENDERS - 3),
        (None, {"max_links": 0}, [], 0),
        # As the SDK does it: the last ones stay.
        (SpanLimits(max_links=2), {}, [SENDERS - 1, SENDERS], SENDERS - 2),
        (SpanLimits(max_links=2), {"max_links": 3}, [2, 3], SENDERS - 2),
    ],
)
def test_bounds_hold_and_the_rest_is_counted(fetched, limits, options, there, dropped):
    span = fetched(limits, **options)
    assert (ids(span), span.dropped_links) == (there, dropped)


def test_a_span_of_another_kind_gets_them_at_once():
    class Other:
        def __init__(self):
            self.given = []

        def is_recording(self):
            return True

        def add_link(self, context, attributes=None):
            self.given.append(context)

    span, sender = Other(), trace.SpanContext(1, 2, is_remote=True)
    LaterLinks(lambda: [sender, sender], 1).give_to(span)
    assert span.given == [sender]


HEX = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    "value",
    [
        f"00-{HEX}-b7ad6b7169203331-01",
        f"00-{HEX}-b7ad6b7169203331-00",
        f"00-{HEX}-0000000000000000-01",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"01-{HEX}-b7ad6b7169203331-01",
        f"00-{HEX.upper()}-b7ad6b7169203331-01",
        f"00-{HEX}_b7ad6b7169203331-01",
        f"00-{HEX}-b7ad6b7169203331-01-",
        "",
    ],
)
def test_many_contexts_are_read_as_one_is(value):
    def block(*lines):
        return "\r\n".join(["NATS/1.0", *lines, "", ""]).encode()

    other = block("a: b", f"TraceParent: 00-{HEX}-00000000000000ff-01")
    blocks = [
        block(f"traceparent: {value}"),
        other,
        other,
        block("k: v"),
        block(f"traceparent:{value}"),
    ]
    texts = parent_texts(blocks)
    assert texts is not None
    assert read_parents(texts) == trace_parents(blocks)
    twice = [block(f"traceparent: {value}", "traceparent: x"), *blocks]
    assert read_parents(parent_texts(twice) or b"") == trace_parents(twice)
    assert parent_texts([*blocks, block("tracestate: a=b")]) is None
