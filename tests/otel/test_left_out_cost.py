"""What tracing adds to a call that is not sampled: few Python functions, with and without meters,
and the meters count all the same."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider

import jetsync
import jetsync.otel
from jetsync.otel.totals import Pace
from tests.harness.frames import frames
from tests.harness.waiting import wait_until


class Metered:
    """A connection whose spans are all left out, with a provider of meters or without; ``traced``:
    with one of tracers, by ``root`` where a trace begins."""

    def __init__(self, url, metered, *, traced=True, root=ALWAYS_OFF, **options):
        self.reader = InMemoryMetricReader()
        meters = MeterProvider([self.reader]) if metered else None
        sampler = ParentBased(root)
        tracers = TracerProvider(sampler=sampler) if traced else NoOpTracerProvider()
        jetsync.otel.instrument(tracer_provider=tracers, meter_provider=meters, **options)
        try:
            self.nc = jetsync.connect(url)
        finally:
            jetsync.otel.uninstrument()

    def points(self) -> Any:
        """Every point, by metric, operation, template and kind of error."""
        data: Any = self.reader.get_metrics_data()
        assert data is not None
        (scope,) = data.resource_metrics[0].scope_metrics
        return {
            (
                metric.name.removeprefix("messaging."),
                point.attributes["messaging.operation.name"],
                point.attributes["messaging.destination.template"],
                point.attributes.get("error.type"),
            ): getattr(point, "value", getattr(point, "count", None))
            for metric in scope.metrics
            for point in metric.data.data_points
        }


@pytest.fixture
def stream(js):
    yield js.create_stream(name="LEFT", subjects=["left.>"], storage="memory")
    js.delete_stream("LEFT")


def calls(nc):
    """Calls of a connection by their names, each made once: what is worked out once is not
    counted."""
    js = nc.jetstream()
    consumer = js.create_consumer("LEFT", ack_policy="none")
    settled = js.create_consumer("LEFT")
    js.publish_many([("left.a", b"x")] * 20)
    received = iter(settled.fetch(10, timeout=9))
    found = {
        "core": lambda: nc.publish("left.core", b"x"),
        "publish": lambda: js.publish("left.a", b"x"),
        "publish_async": lambda: js.publish_async("left.a", b"x"),
        "next": lambda: consumer.next(timeout=9),
        "ack_sync": lambda: next(received).ack_sync(timeout=9),
    }
    for call in found.values():
        call()
    return found


def fewest(call):
    """The functions that a call enters when it does nothing that only some calls do."""
    return min((frames(call) for _ in range(5)), key=lambda entered: entered.total())


@pytest.mark.parametrize("metered", [False, True])
@pytest.mark.parametrize(("root", "drawn"), [(ALWAYS_OFF, 0), (TraceIdRatioBased(1e-9), 1)])
def test_a_call_that_is_left_out_enters_few_functions_more(stream, nc, url, metered, root, drawn):
    """One more where a share of the traces is sampled: it draws them."""
    bounds = {
        False: {"core": 6, "publish": 6, "publish_async": 12, "next": 5, "ack_sync": 5},
        True: {"core": 6, "publish": 6, "publish_async": 14, "next": 5, "ack_sync": 5},
    }[metered]
    made = Metered(url, metered, root=root)
    with made.nc:
        plain, observed = calls(nc), calls(made.nc)
        for name, bound in bounds.items():
            added = fewest(observed[name]) - fewest(plain[name])
            assert added.total() <= bound + drawn, (name, added.most_common())


def test_what_is_left_out_is_measured(stream, url):
    made = Metered(url, True)
    with made.nc as nc:
        js, handled = nc.jetstream(), []
        nc.publish("left.core", b"x")
        js.publish("left.a", b"x")
        js.publish_async("left.a", b"x").result(9)
        with pytest.raises(jetsync.NoRespondersError):
            nc.request("unheard", b"x", timeout=9)
        consumer = js.create_consumer("LEFT", filter_subject="left.a", ack_policy="none")
        consumer.next(timeout=9)
        with consumer.consume(handled.append):
            wait_until(lambda: handled)
        confirmed = js.create_consumer("LEFT", filter_subject="left.a")
        confirmed.next(timeout=9).ack_sync(timeout=9)

        def points():
            return {key[:3]: value for key, value in made.points().items() if key[3] is None}

        sent, duration = "client.sent.messages", "client.operation.duration"
        wait_until(lambda: ("process.duration", "process", "left.a") in points())
        wait_until(lambda: points().get((sent, "publish", "left.a")) == 2)
        found = points()
        assert found[sent, "publish", "left.core"] == 1
        assert found[duration, "publish", "left.a"] == 2
        assert found["client.consumed.messages", "receive", "LEFT"] == 1
        assert found[duration, "ack", "left.a"] == 1
        assert found["client.consumed.messages", "process", "left.a"] == 1
        assert found["process.duration", "process", "left.a"] == 1
        assert made.points()[duration, "request", "unheard", "NoRespondersError"] == 1


def test_what_was_not_received_is_measured_and_not_counted(stream, url):
    made = Metered(url, True)
    with made.nc as nc:
        consumer = nc.jetstream().create_consumer("LEFT", ack_policy="none")
        with pytest.raises(jetsync.TimeoutError):
            consumer.next(timeout=0.05)
        found = made.points()
    assert found["client.operation.duration", "receive", "LEFT", "TimeoutError"] == 1
    assert not [key for key in found if key[0] == "client.consumed.messages"]


def test_the_duration_of_a_call_is_no_example_of_the_span_that_is_current_later(url):
    """Notes are read when the program collects, in the middle of anything."""
    made = Metered(url, True)
    with made.nc as nc:
        nc.publish("left.core", b"x")
        with TracerProvider().get_tracer("web").start_as_current_span("other"):
            data: Any = made.reader.get_metrics_data()
    (scope,) = data.resource_metrics[0].scope_metrics
    (timed,) = (one for one in scope.metrics if one.name.endswith("operation.duration"))
    assert [list(point.exemplars) for point in timed.data.data_points] == [[]]


def test_without_tracers_calls_are_measured_and_pass_on_the_trace_of_others(stream, nc, url):
    """A program with meters alone begins no trace, not even one that is left out."""
    made = Metered(url, True, traced=False)
    parent = f"00-{5:032x}-{6:016x}-01"
    with made.nc as measured, nc.subscribe("relayed") as relayed:
        subscription = measured.subscribe("relay", callback=lambda _: measured.publish("relayed"))
        js, plain = measured.jetstream(), nc.jetstream()
        js.publish("left.a", b"x")
        assert "traceparent" not in plain.stream("LEFT").get_last_msg("left.a").headers
        added = fewest(lambda: js.publish("left.a")) - fewest(lambda: plain.publish("left.a"))
        assert added.total() <= 7, added.most_common()
        measured.flush()
        nc.publish("relay")
        assert "traceparent" not in relayed.next(9).headers
        nc.publish("relay", headers={"traceparent": parent})
        assert relayed.next(9).headers["traceparent"] == parent
        subscription.unsubscribe()
        assert made.points()["client.sent.messages", "publish", "left.a", None] == 6


@pytest.mark.parametrize(("pace", "recorded"), [(1, range(1, 41)), (None, range(41, 42))])
def test_numbers_of_messages_are_exact_and_durations_a_sample(stream, url, pace, recorded):
    """At most so many durations a second are recorded, or all of them."""
    made = Metered(url, True, durations_per_second=pace)
    with made.nc as nc:
        for _ in range(41):
            nc.publish("left.core")
        found = made.points()
    assert found["client.sent.messages", "publish", "left.core", None] == 41
    assert found["client.operation.duration", "publish", "left.core", None] in recorded


def test_the_pace_gives_a_second_of_rest_back_and_no_more(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("jetsync.otel.totals.monotonic", lambda: now[0])
    pace = Pace(10)
    assert pace.let(3) == 3
    assert pace.let(50) == 7  # a second's worth at once
    now[0] += 0.5
    assert pace.let(50) == 5
    now[0] += 60
    assert pace.let(50) == 10
    slow = Pace(0.1)
    assert (slow.let(5), slow.let(5)) == (1, 0)
    now[0] += 10
    assert slow.let(5) == 1


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan")])
def test_a_wrong_pace_is_refused(wrong):
    with pytest.raises(jetsync.ConfigError, match="durations_per_second"):
        jetsync.otel.instrument(durations_per_second=wrong)
