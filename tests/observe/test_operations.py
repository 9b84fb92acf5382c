"""Which operations hooks see, one for each call, and what the span of a handler joins."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import baggage
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

import jetsync
import jetsync.observe
import jetsync.otel
from jetsync.worker import Worker
from tests.harness.waiting import wait_until


class Ended(jetsync.observe.Hooks):
    def __init__(self):
        self.seen = []
        self.api = []

    def end(self, op):
        seen = self.api if op.kind == "api" else self.seen
        seen.append((op.kind, op.name))


@pytest.fixture
def ended():
    hooks = Ended()
    jetsync.observe.install(hooks)
    yield hooks.seen
    jetsync.observe.uninstall()


@pytest.fixture
def nc(ended, url):
    with jetsync.connect(url) as connection:
        yield connection


@pytest.fixture
def consumer(nc):
    js = nc.jetstream()
    js.create_stream(name="OBSERVED", subjects=["observed"], storage="memory")
    js.publish_many([("observed", b"x")])
    yield js.create_consumer("OBSERVED", durable_name="d")
    js.delete_stream("OBSERVED")


def test_an_observed_publish_shows_its_options_in_help(nc):
    shown = inspect.signature(nc.jetstream().publish).parameters
    assert {"headers", "timeout", "msg_id", "ttl", "expected_last_seq"} < shown.keys()


def test_next_is_one_operation(consumer, ended):
    ended.clear()
    consumer.next(timeout=5)
    with pytest.raises(jetsync.TimeoutError):
        consumer.next(timeout=0.1)
    assert ended == [("receive", "next")] * 2


def test_a_request_for_many_replies_is_one_operation_until_they_end(nc, ended):
    for answer in (b"1", b"2"):
        nc.subscribe("many", callback=lambda msg, answer=answer: msg.respond(answer))
    nc.flush()
    replies = nc.request_many("many", b"", max_messages=2, timeout=9)
    asked = ("request", "request_many")
    assert asked not in ended
    assert len(list(replies)) == 2
    assert ended.count(asked) == 1
    next(nc.request_many("many", b"", timeout=9))  # and the other reply is not taken
    wait_until(lambda: ended.count(asked) == 2)
    nc.request_many("many", b"", timeout=9)
    wait_until(lambda: ended.count(asked) == 3)
    with pytest.raises(jetsync.ConfigError):
        nc.request_many("no subject", b"")
    assert ended.count(asked) == 4


def test_hooks_may_read_the_header_blocks_of_the_first_messages_of_a_batch(url):
    read = []

    class Reading(jetsync.observe.Hooks):
        def end(self, op):
            if op.kind == "receive":
                read.append(list(op.headers))

    with jetsync.connect(url, hooks=Reading()) as nc:
        js = nc.jetstream()
        js.create_stream(name="BLOCKS", subjects=["blocks"], storage="memory")
        js.publish_many([("blocks", b"", {"N": str(n)}) for n in range(140)]).raise_for_failed()
        batch = js.create_consumer("BLOCKS").fetch(140, timeout=9)
        js.delete_stream("BLOCKS")
    assert read == [[msg.raw_headers for msg in list(batch)[:128]]]
    assert b"N: 127" in read[0][-1]


def test_requests_to_the_api_are_operations(url):
    hooks = Ended()
    with jetsync.connect(url, hooks=hooks) as nc:
        js = nc.jetstream()
        js.create_stream(name="ASKED", subjects=["asked"], storage="memory")
        with pytest.raises(jetsync.ConsumerNotFoundError):
            js.consumer("ASKED", "none")
        js.delete_stream("ASKED")
    names = [name for _, name in hooks.api]
    assert names[0] == "STREAM.CREATE"
    assert "CONSUMER.INFO" in names
    assert names[-1] == "STREAM.DELETE"


@pytest.mark.parametrize("wrap", [lambda handler: handler, jetsync.observe.processing])
def test_the_handler_of_a_service_is_one_operation_and_discovery_is_none(nc, ended, wrap):
    def answer(request):
        nc.publish("inside")
        return b"y"

    with nc.add_service("observed", "1.0.0") as service:
        service.add_endpoint("ask", wrap(answer))
        ended.clear()
        assert nc.request("$SRV.PING.observed", timeout=5).data
        assert nc.request("ask", timeout=5).data == b"y"
        wait_until(lambda: len(ended) >= 5)
    assert sorted(ended) == [
        ("process", "answer"),
        ("publish", "publish"),  # in the handler
        ("publish", "publish"),  # the answer
        ("request", "request"),
        ("request", "request"),
    ]


@pytest.mark.parametrize("wrap", [lambda handler: handler, jetsync.observe.processing])
def test_the_handler_of_a_worker_is_one_operation(consumer, ended, wrap):
    def work(msg):
        pass

    ended.clear()
    with Worker(consumer, wrap(work)):
        wait_until(lambda: ended)
    assert ended == [("process", "work")]


def test_a_message_that_was_fetched_and_processed_is_counted_once(url):
    reader = InMemoryMetricReader()
    jetsync.otel.instrument(
        tracer_provider=TracerProvider(), meter_provider=MeterProvider([reader])
    )
    try:
        with jetsync.connect(url) as nc:
            js = nc.jetstream()
            js.create_stream(name="COUNTED", subjects=["counted"], storage="memory")
            js.publish("counted")
            for msg in js.create_consumer("COUNTED", durable_name="d").fetch(1, timeout=5):
                jetsync.observe.processing(lambda msg: None)(msg)
            js.delete_stream("COUNTED")
    finally:
        jetsync.otel.uninstrument()
    metrics: Any = reader.get_metrics_data()
    (resource,) = metrics.resource_metrics
    found = {m.name: m.data.data_points for m in resource.scope_metrics[0].metrics}
    assert sum(point.value for point in found["messaging.client.consumed.messages"]) == 1


class OwnNames(TextMapPropagator):
    """Like that of X-Ray: a header name with capital letters, found by this name only."""

    fields = {"X-Own-Trace"}

    def inject(self, carrier, context=None, setter=None):
        carrier["X-Own-Trace"] = str(get_current_span(context).get_span_context().span_id)

    def extract(self, carrier, context=None, getter=None):
        span = SpanContext(7, int(carrier["X-Own-Trace"]), True, TraceFlags(1))
        context = set_span_in_context(NonRecordingSpan(span), context)
        return baggage.set_baggage("tenant", "blue", context)


@pytest.mark.parametrize("name", ["X-Own-Trace", "x-own-trace"])
def test_a_propagator_finds_its_names_and_its_baggage_reaches_the_handler(url, name):
    provider, found = TracerProvider(), []

    def handler(msg):
        span: Any = get_current_span()
        found.append((span.parent.span_id, baggage.get_baggage("tenant")))

    jetsync.otel.instrument(tracer_provider=provider, propagator=OwnNames())
    try:
        with jetsync.connect(url) as nc:
            nc.subscribe("own", callback=handler)
            nc.flush()
            jetsync.otel.uninstrument()
            with jetsync.connect(url) as plain:
                plain.publish("own", headers={name: "17"})
            wait_until(lambda: found)
    finally:
        jetsync.otel.uninstrument()
    assert found == [(17, "blue")]


def test_the_operation_of_a_batch_ends_once_whatever_becomes_of_it(nc):
    begun, over = [], []

    class Watching(jetsync.observe.Hooks):
        def begin(self, op):
            if op.kind != "api":
                begun.append(op.name)

        def end(self, op):
            if op.kind != "api":
                over.append((op.name, op.count, type(op.error)))

    jetsync.observe.install(Watching())
    with jetsync.connect(nc.connected_url) as other:
        js = other.jetstream()
        js.create_stream(name="BATCHED", subjects=["batched"], allow_atomic=True)
        batch = js.batch()
        with pytest.raises(jetsync.ConfigError):
            batch.commit()
        assert begun == []
        with pytest.raises(jetsync.ConfigError):
            batch.add("no subject")
        assert over == [("batch", None, jetsync.ConfigError)]
        batch.add("batched", b"1")
        with pytest.raises(jetsync.ConfigError):
            batch.commit(None, b"x")
        assert len(over) == 1
        batch.commit("batched", b"2")
        with pytest.raises(jetsync.ConfigError):
            batch.commit()
        assert over[1:] == [("batch", 2, type(None))]
        dropped = js.batch()
        dropped.add("batched", b"3")
        del dropped
        wait_until(lambda: over[2:] == [("batch", 0, type(None))])
        js.delete_stream("BATCHED")
    assert begun == ["batch"] * 3


class Noting(jetsync.observe.Hooks):
    """Leaves everything out, and gets notes of it."""

    def __init__(self):
        self.notes = deque()
        self.sizes = []

    def plan(self, kind, block):
        return jetsync.observe.LeftOut({"left": kind}, self.notes)

    def noted(self):
        self.sizes.append(len(self.notes))
        self.notes.clear()


def test_what_is_left_out_leaves_a_note(url):
    hooks = Noting()
    with jetsync.connect(url, hooks=hooks) as nc:
        address = nc.connected_url
        nc.publish("noted", b"x")
        with pytest.raises(jetsync.NoRespondersError):
            nc.request("unheard", timeout=9)
        with pytest.raises(jetsync.NoRespondersError):
            nc.request_async("unheard", timeout=9).result(9)
        wait_until(lambda: len(hooks.notes) == 3)
        for number in range(64):
            nc.publish(f"noted.{number}")
    about = [
        ("publish", "publish", address, "noted", None, None),
        ("request", "request", address, "unheard", None, None),
        ("request", "request_async", address, "unheard", None, None),
    ]
    assert hooks.sizes == [64]
    assert len(hooks.notes) == 3
    hooks = Noting()
    with jetsync.connect(url, hooks=hooks) as nc, nc.subscribe("noted") as subscription:
        nc.publish("noted", headers={"left": "kept"})
        assert subscription.next(9).headers["left"] == "kept"
        nc.publish("noted")
        assert subscription.next(9).headers["left"] == "publish"
        with pytest.raises(jetsync.NoRespondersError):
            nc.request("unheard", timeout=9)
        notes = list(hooks.notes)
    received = ("receive", "next", address, "noted", None, None)
    assert [note[:3] for note in notes] == [
        (about[0], None, 1),
        (received, None, 1),
        (about[0], None, 1),
        (received, None, 1),
        (about[1], "NoRespondersError", 1),
    ]
    assert all(0 < seconds < 60 for *_, seconds in notes)


def test_a_hook_that_raises_over_its_notes_is_called_no_more(url, caplog):
    class Raising(Noting):
        def noted(self):
            raise ZeroDivisionError

    hooks = Raising()
    with jetsync.connect(url, hooks=hooks) as nc:
        for _ in range(70):
            nc.publish("noted")
    assert len(hooks.notes) == 64
    assert "a hook raised in noted()" in caplog.text


@pytest.mark.parametrize("left_out", [True, False])
def test_headers_that_are_no_mapping_are_refused_beside_those_of_hooks(url, left_out):
    """The call refuses them as it does without hooks, and its operation ends."""

    class Adding(Noting):
        def __init__(self):
            super().__init__()
            self.told = []

        def plan(self, kind, block):
            return super().plan(kind, block) if left_out else None

        def begin(self, op):
            self.told.append(("begin", op.name))

        def inject(self, op, headers):
            headers["left"] = op.kind

        def end(self, op):
            self.told.append((type(op.error).__name__, op.name))

    hooks = Adding()
    with jetsync.connect(url, hooks=hooks) as nc:
        js = nc.jetstream()
        calls: list[Callable[..., object]] = [
            *(nc.publish, nc.request, nc.request_async, js.publish, js.publish_async),
        ]
        for call in calls:
            with pytest.raises(jetsync.ConfigError, match="headers must be a mapping, not int"):
                call("any", b"", headers=7)
    names = ["publish", "request", "request_async", "publish", "publish_async"]
    if left_out:
        noted = [(about[1], error) for about, error, *_ in hooks.notes]
        assert noted == [(name, "ConfigError") for name in names]
    else:
        ends = [(kind, name) for name in names for kind in ("begin", "ConfigError")]
        assert hooks.told == ends
