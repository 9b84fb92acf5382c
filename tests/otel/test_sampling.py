"""What the sampler leaves out: no span is made of it, its messages say so, the rest is whole."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    AlwaysRecordSampler,
    Decision,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)

import jetsync
import jetsync.observe
import jetsync.otel
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until


class Traced:
    """A connection with spans by this sampler, and what the SDK exported of it."""

    def __init__(self, url, sampler, **options):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        jetsync.otel.instrument(tracer_provider=self.provider, **options)
        try:
            self.nc = jetsync.connect(url)
        finally:
            jetsync.otel.uninstrument()

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    @property
    def names(self):
        return [span.name for span in self.spans]


@pytest.fixture
def traced(url):
    made = []

    def make(sampler, **options):
        made.append(Traced(url, sampler, **options))
        return made[-1]

    yield make
    for one in made:
        one.nc.close()


@pytest.fixture
def plain(url):
    with jetsync.connect(url) as nc:
        yield nc


@pytest.fixture
def inbox(plain):
    with plain.subscribe("sampled.>") as sub:
        plain.flush()
        yield sub


def is_sampled(msg):
    return int(msg.headers["traceparent"].split("-")[3], 16) & 1 == 1


@pytest.mark.parametrize(
    "sampler", [ALWAYS_OFF, ParentBased(ALWAYS_OFF), ParentBasedTraceIdRatio(0.0)]
)
def test_what_is_sent_without_a_span_says_that_it_is_not_sampled(traced, inbox, sampler):
    one = traced(sampler)
    one.nc.publish("sampled.a")
    with pytest.raises(jetsync.TimeoutError):
        one.nc.request("sampled.b", timeout=0.1)
    sent = [inbox.next(5), inbox.next(5)]
    assert not any(map(is_sampled, sent))
    ids = {msg.headers["traceparent"].split("-")[1] for msg in sent}
    assert len(ids) == 2
    assert "0" * 32 not in ids
    assert one.names == []


def test_a_consumer_leaves_out_what_its_sender_has_left_out(traced):
    """And so does all that its handler sends: one decision holds from end to end."""
    sender, worker = traced(ParentBased(ALWAYS_OFF)), traced(ParentBased(ALWAYS_ON))
    seen = []

    def handle(msg):
        seen.append(trace.get_current_span().get_span_context())
        msg.respond(b"")

    worker.nc.subscribe("sampled.work", callback=handle)
    worker.nc.flush()
    answer = sender.nc.request("sampled.work", timeout=9)
    (inside,) = seen
    assert answer.headers["traceparent"].split("-")[1] == f"{inside.trace_id:032x}"
    assert not is_sampled(answer)
    assert worker.names == []


def test_a_message_without_sender_that_is_not_sampled_is_the_beginning_of_a_trace(traced, plain):
    """What its handler sends is left out with it, not sampled by chance."""
    worker = traced(ParentBased(ALWAYS_OFF))
    seen = []

    def handle(msg):
        seen.append(trace.get_current_span().get_span_context())
        msg.respond(b"")

    worker.nc.subscribe("sampled.work", callback=handle)
    worker.nc.flush()
    answer = plain.request("sampled.work", timeout=9)
    assert seen[0].is_valid
    assert not seen[0].trace_flags.sampled
    assert answer.headers["traceparent"].split("-")[1] == f"{seen[0].trace_id:032x}"


def test_the_context_of_a_handler_ends_with_it(traced, plain):
    worker = traced(ParentBased(ALWAYS_OFF))
    js = worker.nc.jetstream()
    js.create_stream(name="SAMPLED", subjects=["sampled.js"], storage="memory")
    consumer = js.create_consumer("SAMPLED")
    plain.jetstream().publish("sampled.js")

    class HandlerError(Exception):
        pass

    def fails(msg):
        assert trace.get_current_span().get_span_context().is_valid
        raise HandlerError

    jetsync.otel.instrument(tracer_provider=worker.provider)
    try:
        handler = jetsync.observe.processing(fails)
        with pytest.raises(HandlerError):
            handler(consumer.next(timeout=9))
    finally:
        jetsync.otel.uninstrument()
        plain.jetstream().delete_stream("SAMPLED")
    assert not trace.get_current_span().get_span_context().is_valid


def test_below_a_span_that_is_not_sampled_nothing_is(traced, inbox):
    one = traced(ParentBasedTraceIdRatio(0.0))
    with one.provider.get_tracer("web").start_as_current_span("GET /") as above:
        one.nc.publish("sampled.a")
    sent = inbox.next(5)
    assert sent.headers["traceparent"].split("-")[1] == f"{above.get_span_context().trace_id:032x}"
    assert not is_sampled(sent)
    assert one.names == []


def test_a_span_that_is_recorded_but_not_sampled_is_left_to_its_owner(traced, inbox):
    one = traced(ParentBased(AlwaysRecordSampler(ALWAYS_OFF)))
    with one.provider.get_tracer("web").start_as_current_span("GET /") as above:
        one.nc.publish("sampled.a")
        assert above.is_recording()
    assert not is_sampled(inbox.next(5))


def test_baggage_travels_with_a_trace_that_is_not_sampled(traced, plain):
    worker = traced(ParentBased(ALWAYS_ON))
    seen = []

    def handle(msg):
        seen.append((baggage.get_baggage("who"), trace.get_current_span().get_span_context()))
        msg.respond(b"")

    worker.nc.subscribe("sampled.work", callback=handle)
    worker.nc.flush()
    sender = f"00-{1:032x}-{2:016x}-00"
    answer = plain.request(
        "sampled.work", headers={"traceparent": sender, "baggage": "who=me"}, timeout=9
    )
    assert (seen[0][0], seen[0][1].trace_id) == ("me", 1)
    assert answer.headers["baggage"] == "who=me"
    assert worker.names == []


@pytest.mark.parametrize("sampler", [ParentBasedTraceIdRatio(0.5), TraceIdRatioBased(0.5)])
def test_a_share_of_the_traces_is_sampled_and_their_ids_say_which(traced, inbox, sampler):
    """Another service with the same share takes the same traces."""
    one = traced(sampler)
    for _ in range(400):
        one.nc.publish("sampled.a")
    one.nc.flush()
    sent = [inbox.next(5) for _ in range(400)]
    taken = [msg for msg in sent if is_sampled(msg)]
    assert 120 < len(taken) < 280  # 200 are expected, and less than 1 in 10**14 runs is outside
    assert len(one.spans) == len(taken)
    for msg in taken:
        assert int(msg.headers["traceparent"].split("-")[1], 16) % 2**64 < 2**63
    assert {span.parent for span in one.spans} == {None}
    assert len({span.context.trace_id for span in one.spans}) == len(taken)


def test_calls_that_receive_are_sampled_by_the_same_share(traced, plain):
    one = traced(ParentBasedTraceIdRatio(0.5))
    js = one.nc.jetstream()
    js.create_stream(name="SAMPLED", subjects=["sampled.js"], storage="memory")
    plain.jetstream().publish_many([("sampled.js", b"")] * 400).raise_for_failed()
    consumer = js.create_consumer("SAMPLED")
    one.exporter.clear()
    for _ in range(400):
        assert len(consumer.fetch_no_wait(1)) == 1
    js.delete_stream("SAMPLED")
    assert 120 < len([name for name in one.names if name == "receive SAMPLED"]) < 280


class Odd(Sampler):
    """Takes every second span, whatever is above it."""

    def __init__(self):
        self.asked = []

    def should_sample(self, parent_context, trace_id, name, kind=None, *args, **more):
        self.asked.append(name)
        taken = len(self.asked) % 2
        return SamplingResult(Decision.RECORD_AND_SAMPLE if taken else Decision.DROP)

    def get_description(self):
        return "Odd"


@pytest.mark.parametrize("based", [False, True])
def test_a_sampler_that_is_not_known_decides_on_every_span(traced, inbox, based):
    odd = Odd()
    one = traced(ParentBased(odd) if based else odd)
    for _ in range(4):
        one.nc.publish("sampled.a")
    assert odd.asked == ["publish sampled.a"] * 4
    assert len(one.spans) == 2


def test_a_receive_that_is_left_out_is_no_operation(traced, monkeypatch):
    """Nothing is made of it: neither an operation, nor a context, nor a span."""
    one = traced(ParentBased(ALWAYS_OFF))
    js = one.nc.jetstream()
    js.create_stream(name="SAMPLED", subjects=["sampled.js"], storage="memory")
    consumer = js.create_consumer("SAMPLED")
    made = []
    monkeypatch.setattr("jetsync.observe.consuming.Operation", lambda *a, **b: made.append(a))
    monkeypatch.setattr(trace.SpanContext, "__new__", lambda *a, **b: made.append(a))
    assert len(consumer.fetch_no_wait(5)) == 0
    monkeypatch.undo()
    js.delete_stream("SAMPLED")
    assert made == []


def test_a_fetch_links_to_as_many_senders_as_are_wanted(traced, plain):
    one = traced(ALWAYS_ON, max_links=2)
    js = one.nc.jetstream()
    js.create_stream(name="SAMPLED", subjects=["sampled.js"], storage="memory")
    rows = [("sampled.js", b"", {"traceparent": f"00-{1:032x}-{n:016x}-01"}) for n in (1, 1, 2, 3)]
    plain.jetstream().publish_many(rows).raise_for_failed()
    consumer = js.create_consumer("SAMPLED")
    assert len(consumer.fetch(4, timeout=9)) == 4
    js.delete_stream("SAMPLED")
    (span,) = [span for span in one.spans if span.name == "receive SAMPLED"]
    assert [link.context.span_id for link in span.links] == [1, 2]
    assert span.attributes["messaging.batch.message_count"] == 4


@pytest.mark.parametrize("wrong", [-1, 129, 1.5, "8"])
def test_a_wrong_number_of_links_is_refused(wrong):
    with pytest.raises(jetsync.ConfigError, match="max_links"):
        jetsync.otel.instrument(max_links=wrong)


def test_the_provider_may_be_set_after_instrument(url):
    program = """
        import sys, time
        import jetsync, jetsync.otel
        from opentelemetry import metrics, trace
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

        jetsync.otel.instrument()
        with jetsync.connect(sys.argv[1]) as nc:
            nc.publish("before")
            exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
            provider = TracerProvider(sampler=ParentBasedTraceIdRatio(1.0))
            provider.add_span_processor(SimpleSpanProcessor(exporter))
            trace.set_tracer_provider(provider)
            metrics.set_meter_provider(MeterProvider([reader]))
            time.sleep(0.06)  # a provider of meters is found within 0.05 seconds
            nc.publish("after")
        print([span.name for span in exporter.get_finished_spans()])
        (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
        print([p.value for m in scope.metrics if "sent" in m.name for p in m.data.data_points])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ["['publish after']", "[1]"], done.stderr


def test_a_message_is_processed_once_for_each_decision(traced, inbox):
    """A span that is sampled is made where its context says, with its link."""
    one = traced(ParentBasedTraceIdRatio(0.0))
    one.nc.subscribe("sampled.a", callback=lambda msg: None)
    one.nc.flush()
    sampled = f"00-{7:032x}-{8:016x}-01"
    one.nc.publish("sampled.a", headers={"traceparent": sampled})
    wait_until(lambda: one.names == ["process sampled.a"])
    (span,) = one.spans
    assert (span.parent.span_id, span.links[0].context.span_id) == (8, 8)


def test_servers_report_the_way_of_what_is_sampled_and_of_nothing_else():
    """An account with ``msg_trace`` (ADR-41): the header of a span makes its server tell of it."""
    user = {"user": "u", "password": "p"}
    account = {"users": [user], "msg_trace": {"dest": "hops", "sampling": "100%"}}
    with NatsServer(config={"accounts": {"A": account}}) as server:
        url = server.url.replace("://", "://u:p@")
        with jetsync.connect(url) as nc, nc.subscribe("hops") as hops:
            nc.flush()
            for sampler in (ParentBased(ALWAYS_OFF), ALWAYS_ON):
                one = Traced(url, sampler)
                one.nc.publish("sampled.way")
                one.nc.close()
            report = json.loads(hops.next(9).data)
            with pytest.raises(jetsync.TimeoutError):
                hops.next(0.1)
    (span,) = one.spans
    (carried,) = report["request"]["header"]["traceparent"]
    assert carried.split("-")[1:3] == [
        f"{span.context.trace_id:032x}",
        f"{span.context.span_id:016x}",
    ]
    assert report["events"][0]["subj"] == "sampled.way"
