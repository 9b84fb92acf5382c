"""Spans and metrics: names, links, parents and headers, as the SDK of OpenTelemetry sees them."""

from __future__ import annotations

import http.server
import itertools
import pickle
import threading

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import messaging_attributes

import jetsync
import jetsync.observe
import jetsync.otel
from jetsync.otel.names import template_of
from tests.harness.waiting import wait_until


class Seen:
    """What the SDK has exported."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def spans(self, name=None):
        return [s for s in self.exporter.get_finished_spans() if name in (None, s.name)]

    def one(self, name):
        wait_until(
            lambda: self.spans(name), message=lambda: f"{name}: {[s.name for s in self.spans()]}"
        )
        (span,) = self.spans(name)
        return span


@pytest.fixture
def seen():
    found = Seen()
    jetsync.otel.instrument(tracer_provider=found.provider, meter_provider=found.meters)
    yield found
    jetsync.otel.uninstrument()


@pytest.fixture
def nc(seen, url):
    with jetsync.connect(url) as connection:
        yield connection


@pytest.fixture
def js(nc):
    js = nc.jetstream()
    js.create_stream(name="TRACED", subjects=["traced.>"], storage="memory")
    yield js
    js.delete_stream("TRACED")


def test_a_message_is_sent_by_a_producer_and_processed_below_it(nc, seen):
    nc.subscribe("orders.*", queue="billing", callback=lambda msg: None)
    nc.publish("orders.17", b"abc")
    sent, done = seen.one("publish orders.{id}"), seen.one("process orders.{id}")
    assert (sent.kind, done.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    assert done.parent.span_id == sent.context.span_id
    assert [link.context.span_id for link in done.links] == [sent.context.span_id]
    assert (
        dict(sent.attributes).items()
        >= {
            "messaging.system": "nats",
            "messaging.operation.name": "publish",
            "messaging.operation.type": "send",
            "messaging.destination.name": "orders.17",
            "messaging.destination.template": "orders.{id}",
            "messaging.message.body.size": 3,
            "server.address": "127.0.0.1",
        }.items()
    )
    assert done.attributes["messaging.consumer.group.name"] == "billing"


def test_attributes_are_those_of_the_conventions(nc, js, seen):
    js.publish("traced.a", b"x", msg_id="mine")
    js.create_consumer("TRACED", durable_name="d").fetch(1, timeout=5)
    known = {v for k, v in vars(messaging_attributes).items() if k.isupper()}
    used = {name for span in seen.spans() for name in span.attributes}
    of_ours = {name for name in used if name.startswith("messaging.nats.")}
    assert {n for n in used if n.startswith("messaging.")} - of_ours - known == set()
    assert seen.one("publish traced.a").attributes["messaging.message.id"] == "mine"
    published = seen.one("publish traced.a").attributes
    assert published["messaging.nats.stream_sequence"] == 1
    host, port = published["network.peer.address"], published["network.peer.port"]
    assert nc.connected_url == f"nats://{host}:{port}"


def test_a_fetch_links_to_what_sent_its_messages(js, seen):
    futures = [js.publish_async("traced.a", b"%d" % n) for n in range(3)]
    assert jetsync.wait(futures, 20).not_done == set()
    wait_until(lambda: len(seen.spans("publish traced.a")) == 3)
    batch = js.create_consumer("TRACED", durable_name="d").fetch(3, timeout=5)
    fetched = seen.one("receive TRACED")
    sent = {span.context.span_id for span in seen.spans("publish traced.a")}
    assert {link.context.span_id for link in fetched.links} == sent
    assert len(batch) == fetched.attributes["messaging.batch.message_count"] == 3
    assert fetched.attributes["messaging.nats.consumer"] == "d"
    assert fetched.kind == trace.SpanKind.CLIENT


def test_many_messages_share_one_context(js, seen):
    report = js.publish_many(
        [("traced.a", b"1"), ("traced.a", b"2", {"K": "v"}), ("traced.a", b"3", jetsync.Headers())]
    )
    assert report.stored == 3
    sent = seen.one("publish")
    stored = [js.stream("TRACED").get_msg(n).headers for n in (1, 2, 3)]
    assert len({h["traceparent"] for h in stored}) == 1
    assert f"{sent.context.span_id:016x}" in stored[0]["traceparent"]
    assert stored[1]["K"] == "v"
    assert sent.attributes["messaging.batch.message_count"] == 3


def test_a_traceparent_of_the_caller_is_kept(js, seen):
    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    js.publish("traced.a", headers={"traceparent": given})
    js.publish("traced.a", headers=jetsync.Headers({"traceparent": [given]}))
    assert {js.stream("TRACED").get_msg(n).headers["traceparent"] for n in (1, 2)} == {given}


def test_what_fails_says_why(nc, js, seen):
    with pytest.raises(jetsync.NoRespondersError):
        nc.request("unheard")
    with pytest.raises(jetsync.ConfigError):
        nc.publish("bad subject")
    future = js.publish_async("traced.a", expected_last_seq=9)
    assert isinstance(future.exception(20), jetsync.WrongLastSequenceError)

    def fails(msg):
        raise ZeroDivisionError

    nc.subscribe("fails", callback=fails)
    nc.publish("fails")
    for name, error in (
        ("request unheard", "NoRespondersError"),
        ("publish bad subject", "ConfigError"),
        ("publish traced.a", "WrongLastSequenceError"),
        ("process fails", "ZeroDivisionError"),
    ):
        span = seen.one(name)
        assert span.attributes["error.type"] == error
        assert span.status.status_code == trace.StatusCode.ERROR


def test_one_trace_from_a_request_to_the_reply(nc, js, seen):
    """Web request -> request -> service -> publish -> server -> worker -> KV write -> reply."""
    bucket = js.create_key_value(bucket="traced", storage="memory")
    done = threading.Event()

    def work(msg):
        bucket.put("order", msg.data)
        msg.ack()
        done.set()

    def serve(msg):
        js.publish("traced.jobs", msg.data)
        assert done.wait(20)
        msg.respond(bucket.get("order").value)

    consumer = js.create_consumer("TRACED", durable_name="d")
    nc.subscribe("shop", callback=serve)
    tracer = trace.get_tracer("web", tracer_provider=seen.provider)
    with consumer.consume(work), tracer.start_as_current_span("GET /order"):
        assert nc.request("shop", b"beer", timeout=20).data == b"beer"
    js.delete_key_value("traced")
    seen.one("process shop")
    chain = [
        "GET /order",
        "request shop",
        "process shop",
        "publish traced.jobs",
        "process traced.jobs",
        "publish $KV.traced.order",
    ]
    spans = [seen.one(name) for name in chain]
    assert len({span.context.trace_id for span in spans}) == 1
    for above, below in itertools.pairwise(spans):
        assert below.parent.span_id == above.context.span_id, (above.name, below.name)


def test_the_answer_of_a_service_belongs_to_the_span_of_its_handler(nc, seen):
    def serve(request):
        if not request.data:
            raise ValueError("of a handler")
        return request.data

    nc.add_service("spans", "1.0.0").add_endpoint("answered", serve)
    nc.request("answered", b"x", timeout=9)
    nc.request("answered", timeout=9)
    wait_until(lambda: len(seen.spans("process answered")) == 2)
    handled = {span.context.span_id: span for span in seen.spans("process answered")}
    answers = seen.spans("publish (temporary)")
    assert [handled.pop(answer.parent.span_id) for answer in answers]
    assert not handled
    (failed,) = (s for s in seen.spans("process answered") if s.attributes.get("error.type"))
    assert failed.attributes["error.type"] == "ValueError"


def test_a_handler_of_a_worker_is_a_span_too(js, seen):
    js.publish("traced.a")
    consumer = js.create_consumer("TRACED", durable_name="d")
    handler = jetsync.observe.processing(lambda msg: msg.ack())
    for msg in consumer.fetch(1, timeout=5):
        handler(msg)
    span = seen.one("process traced.a")
    assert span.parent.span_id == seen.one("publish traced.a").context.span_id
    assert span.attributes["messaging.nats.delivery_count"] == 1


def test_with_links_only_a_trace_ends_at_the_queue(url):
    seen = Seen()
    jetsync.otel.instrument(tracer_provider=seen.provider, link_only=True)
    try:
        with jetsync.connect(url) as nc:
            nc.subscribe("linked", callback=lambda msg: None)
            nc.publish("linked")
            done = seen.one("process linked")
    finally:
        jetsync.otel.uninstrument()
    assert done.parent is None
    assert [link.context.span_id for link in done.links] == [
        seen.one("publish linked").context.span_id
    ]


def test_what_is_not_sampled_costs_no_header_in_bulk(url):
    provider = TracerProvider(sampler=ALWAYS_OFF)
    jetsync.otel.instrument(tracer_provider=provider)
    try:
        with jetsync.connect(url) as nc:
            js = nc.jetstream()
            js.create_stream(name="UNSAMPLED", subjects=["unsampled"], storage="memory")
            js.publish_many([("unsampled", b"")])
            js.publish("unsampled")
            many, one = (js.stream("UNSAMPLED").get_msg(n).headers for n in (1, 2))
            js.delete_stream("UNSAMPLED")
    finally:
        jetsync.otel.uninstrument()
    assert "traceparent" not in many
    assert int(one["traceparent"][-2:], 16) & 1 == 0  # the flag "sampled"


def test_metrics_have_durations_and_counts(nc, js, seen):
    js.publish("traced.a")
    js.create_consumer("TRACED", durable_name="d").fetch(1, timeout=5)
    nc.subscribe("handled", callback=lambda msg: None)
    nc.publish("handled")
    seen.one("process handled")
    data = seen.reader.get_metrics_data()
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    assert {metric.name for metric in scope.metrics} == {
        "messaging.client.operation.duration",
        "messaging.client.sent.messages",
        "messaging.client.consumed.messages",
        "messaging.process.duration",
    }
    for metric in scope.metrics:
        for point in metric.data.data_points:
            assert "messaging.destination.name" not in point.attributes  # too many values
            if metric.unit == "s":  # most operations take milliseconds
                assert point.explicit_bounds[:2] == (0.005, 0.01)
                assert point.explicit_bounds[-1] == 10


def test_metrics_count_on_when_it_is_turned_on_again(seen, url):
    def sent():
        (resource,) = seen.reader.get_metrics_data().resource_metrics
        (metrics,) = resource.scope_metrics
        (metric,) = (m for m in metrics.metrics if m.name == "messaging.client.sent.messages")
        return sum(point.value for point in metric.data.data_points)

    for times in (1, 2):
        with jetsync.connect(url) as nc:
            nc.publish("again")
            assert sent() == times
        jetsync.otel.uninstrument()
        jetsync.otel.instrument(tracer_provider=seen.provider, meter_provider=seen.meters)


def test_counters_with_too_many_labels_overflow_as_the_sdk_says(seen, url):
    """No more labels are remembered than that, so that memory has a bound."""
    jetsync.otel.instrument(meter_provider=seen.meters, subject_template=lambda subject: subject)
    with jetsync.connect(url) as nc:
        for number in range(2100):
            nc.publish(f"many.{number}")
    (resource,) = seen.reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    (sent,) = (m for m in scope.metrics if m.name == "messaging.client.sent.messages")
    points = sent.data.data_points
    assert sum(point.value for point in points) == 2100
    assert len(points) == 1001
    assert any(point.attributes.get("otel.metric.overflow") for point in points)


def test_one_message_is_no_batch(nc, js, seen):
    js.publish("traced.a")
    consumer = js.create_consumer("TRACED", durable_name="one")
    consumer.next(timeout=5).ack_sync()
    for name in ("receive TRACED", "ack traced.a"):
        assert "messaging.batch.message_count" not in seen.one(name).attributes


def test_spans_reach_a_collector_by_its_protocol(url):
    """OTLP over HTTP: what arrives is decoded with the classes of its protocol buffers."""
    received = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    provider = TracerProvider()
    exporter = OTLPSpanExporter(f"http://127.0.0.1:{collector.server_port}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    jetsync.otel.instrument(tracer_provider=provider)
    try:
        with jetsync.connect(url) as nc:
            nc.publish("exported.1", b"x")
    finally:
        jetsync.otel.uninstrument()
        provider.shutdown()
        collector.shutdown()
        collector.server_close()
    assert [path for path, _ in received] == ["/v1/traces"]
    (scope,) = received[0][1].resource_spans[0].scope_spans
    assert (scope.scope.name, scope.scope.version) == ("jetsync", jetsync.__version__)
    assert scope.spans[0].name == "publish exported.{id}"
    attributes = {a.key: a.value.string_value for a in scope.spans[0].attributes}
    assert attributes["messaging.destination.name"] == "exported.1"


# -- hooks -----------------------------------------------------------------------------------------


def test_hooks_of_one_connection_see_its_operations(url):
    ended = []

    class Mine(jetsync.observe.Hooks):
        def end(self, op):
            ended.append(op)

        def inject(self, op, headers):
            headers["Mark"] = op.name

    with jetsync.connect(url, hooks=Mine()) as nc, jetsync.connect(url) as plain:
        assert type(plain) is jetsync.Connection
        sub = nc.subscribe("hooked")
        nc.publish("hooked", b"12")
        nc.flush()
        plain.publish("hooked", b"3")
        assert sub.next(5).headers.to_dict() == {"Mark": ["publish"]}
        assert not sub.next(5).headers
        future = nc.request_async("unheard")
        assert future.exception(20) is not None
        wait_until(lambda: len(ended) == 4)
    assert [(op.kind, op.name) for op in ended] == [
        ("publish", "publish"),
        ("receive", "next"),
        ("receive", "next"),
        ("request", "request_async"),
    ]
    assert (ended[0].subject, ended[0].bytes, ended[0].connection) == ("hooked", 2, nc)
    assert all(op.duration >= 0 for op in ended)
    assert isinstance(ended[3].error, jetsync.NoRespondersError)


def test_hooks_are_an_option_that_no_pickle_takes_along(url):
    hooks = jetsync.observe.Hooks()
    options = jetsync.ConnectOptions(url, hooks=hooks)
    with jetsync.connect(options=options) as nc:
        assert type(nc) is not jetsync.Connection
        assert nc.options.hooks is hooks
    assert pickle.loads(pickle.dumps(options)) == jetsync.ConnectOptions(url)


@pytest.mark.parametrize("method", ["plan", "begin", "inject", "end"])
def test_a_hook_that_raises_is_logged_once_and_dropped(url, caplog, method):
    def fails(*_):
        raise ZeroDivisionError

    bad = type("Bad", (jetsync.observe.Hooks,), {method: fails})()
    with jetsync.connect(url, hooks=bad) as nc:
        sub = nc.subscribe("still.works")
        for n in range(3):
            nc.publish("still.works", b"%d" % n)
        assert [sub.next(5).data for _ in range(3)] == [b"0", b"1", b"2"]
    (record,) = (r for r in caplog.records if "hook" in r.message)
    assert f"{method}()" in record.message
    assert record.exc_info[0] is ZeroDivisionError


def test_what_are_no_hooks_is_refused():
    with pytest.raises(jetsync.ConfigError, match="Hooks"):
        jetsync.observe.install("none")  # type: ignore[arg-type]
    with pytest.raises(jetsync.ConfigError, match="Hooks"):
        jetsync.connect(hooks="none")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subject", "template"),
    [
        ("orders.new", "orders.new"),
        ("orders.123.items", "orders.{id}.items"),
        ("u.0b9a3c1e-7a52-4f5e-9d55-0123456789ab", "u.{id}"),
        ("n.Ogu3pxfwMH9Pen2CgUIKa1", "n.{id}"),
        ("n.averylongwordofletters", "n.averylongwordofletters"),
    ],
)
def test_ids_in_subjects_make_no_names(subject, template):
    assert template_of(subject) == template
