"""Numbers for Prometheus: what they count, the text format, HTTP, and a registry."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import jetsync
from jetsync._measurement import BOUNDS, Measurement, cumulated
from jetsync.prometheus import Collector, render, serve
from jetsync.worker import Worker
from tests.harness.waiting import wait_until


class Given:
    """An object of a user's own."""

    def __init__(self, *numbers: Measurement) -> None:
        self._numbers = list(numbers)

    def measurements(self) -> list[Measurement]:
        return self._numbers


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What the parser of prometheus_client reads."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def nc(url):
    with jetsync.connect(url, name='a "name"\\') as connection:
        yield connection


@pytest.fixture
def stream(nc):
    made = nc.jetstream().create_stream(
        name="NUMBERS", subjects=["numbers.>"], storage="memory", allow_atomic=True
    )
    yield made
    made.delete()


def test_a_connection_tells_what_it_has_moved(nc) -> None:
    sub = nc.subscribe("n.a", pending_messages_limit=3)
    for _ in range(5):
        nc.publish("n.a", b"12345")
    nc.flush()
    wait_until(lambda: sub.dropped == 2)
    found = samples(render(nc))
    at = (("connection", 'a "name"\\'),)
    assert found["jetsync_connection_up", at] == 1
    assert found["jetsync_connection_sent_messages_total", at] == nc.stats.out_messages == 5
    assert found["jetsync_connection_received_messages_total", at] == nc.stats.in_messages == 5
    assert found["jetsync_connection_sent_bytes_total", at] == nc.stats.out_bytes
    assert found["jetsync_connection_received_bytes_total", at] == nc.stats.in_bytes
    assert found["jetsync_subscription_pending_messages", at] == 3
    assert found["jetsync_subscription_pending_bytes", at] == sub.pending_bytes
    assert found["jetsync_subscription_dropped_messages_total", at] == 2
    assert found["jetsync_connection_rtt_seconds", at] > 0
    (info,) = [labels for name, labels in found if name == "jetsync_connection_info"]
    assert dict(info)["version"] == nc.server_info.version
    nc.force_reconnect()
    wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected, timeout=20)
    assert samples(render(nc))["jetsync_connection_reconnects_total", at] == 1
    nc.close()
    assert samples(render(nc))["jetsync_connection_up", at] == 0


def test_a_connection_tells_how_its_publishes_ended(nc, stream) -> None:
    js = nc.jetstream()
    js.publish("numbers.a", msg_id="1")
    js.publish("numbers.a", msg_id="1")
    report = js.publish_many([("numbers.a", b"x"), ("numbers.a", b"y", {"Nats-Msg-Id": "1"})])
    assert (report.stored, report.duplicates) == (2, 1)
    js.publish_async("numbers.b").result(5)
    with js.batch() as batch:
        for _ in range(5):
            batch.add("numbers.c")
    with pytest.raises(jetsync.NotStoredError), js.batch() as batch:
        batch.add("numbers.c")
        batch.add("numbers.c", expected_last_seq=99)
    refused = js.publish_async("numbers.a", expected_last_seq=99)
    with pytest.raises(jetsync.NotStoredError):
        refused.result(5)
    with pytest.raises(jetsync.NotStoredError):
        js.publish("numbers.a", expected_last_seq=99)
    with pytest.raises(jetsync.ConfigError):
        js.publish("not a subject")
    silent = js.create_stream(name="SILENT", subjects=["silent"], storage="memory", no_ack=True)
    with pytest.raises(jetsync.PublishUnknownError):
        js.publish("silent", timeout=0.2)
    silent.delete()
    found = samples(render(nc))
    at = ("connection", 'a "name"\\')
    results = {
        result: found["jetsync_publish_results_total", (at, ("result", result))]
        for result in ("stored", "duplicate", "not_stored", "unknown")
    }
    assert results == {"stored": 8, "duplicate": 2, "not_stored": 4, "unknown": 1}
    assert found["jetsync_publish_duration_seconds_count", (at,)] == 2
    assert found["jetsync_publish_duration_seconds_bucket", (at, ("le", "+Inf"))] == 2
    assert 0 < found["jetsync_publish_duration_seconds_sum", (at,)] < 60


def test_a_scrape_has_the_documented_names(nc, stream) -> None:
    consumer = stream.create_consumer(durable_name="names")
    nc.jetstream().publish("numbers.a")
    service = nc.add_service("names", "1.0.0")
    service.add_endpoint("one", lambda request: b"", subject="names.one")
    with Worker(consumer, lambda msg: None) as worker:
        wait_until(lambda: worker.stats.done == 1)
        text = render(nc, consumer, worker, service)
        registry = CollectorRegistry()
        registry.register(Collector(nc, consumer, worker, service))
        assert {family.name for family in registry.collect()} == {
            family.name for family in text_string_to_metric_families(text)
        }
    kinds = dict(re.findall("^# TYPE (jetsync_[a-z_]+) ([a-z]+)$", text, re.M))
    connection = ("up", "info", "outbound_buffer_bytes", "rtt_seconds")
    moved = ("received_messages", "received_bytes", "sent_messages", "sent_bytes")
    assert kinds == {
        **{f"jetsync_connection_{name}": "gauge" for name in connection},
        **{
            f"jetsync_connection_{name}_total": "counter"
            for name in (*moved, "reconnects", "unmatched_messages")
        },
        "jetsync_subscription_pending_messages": "gauge",
        "jetsync_subscription_pending_bytes": "gauge",
        "jetsync_subscription_dropped_messages_total": "counter",
        "jetsync_publish_results_total": "counter",
        "jetsync_publish_duration_seconds": "histogram",
        **{
            f"jetsync_consumer_{name}": "gauge"
            for name in ("pending", "ack_pending", "redelivered", "waiting")
        },
        "jetsync_worker_messages_total": "counter",
        "jetsync_worker_handle_duration_seconds": "histogram",
        **{f"jetsync_worker_{name}": "gauge" for name in ("in_flight", "oldest_seconds", "ready")},
        "jetsync_service_requests_total": "counter",
        "jetsync_service_errors_total": "counter",
        "jetsync_service_duration_seconds": "summary",
    }


def test_no_label_is_a_subject(nc, stream) -> None:
    nc.subscribe("secret.subject")
    consumer = stream.create_consumer(durable_name="c", filter_subject="numbers.secret")
    assert "secret" not in render(nc, consumer)


def test_a_consumer_is_asked_now_and_then(nc, stream) -> None:
    js = nc.jetstream()
    consumer = stream.create_consumer(durable_name="c")
    js.publish("numbers.a")
    js.publish("numbers.a")
    consumer.fetch(1, timeout=5)
    at = (("consumer", "c"), ("stream", "NUMBERS"))
    found = samples(render(consumer))
    assert found["jetsync_consumer_pending", at] == 1
    assert found["jetsync_consumer_ack_pending", at] == 1
    sent = nc.stats.out_messages
    assert samples(render(consumer)) == found
    assert nc.stats.out_messages == sent, "the second time nothing was asked"


def test_a_consumer_that_is_gone_has_no_numbers(nc, stream) -> None:
    consumer = stream.create_consumer(durable_name="gone")
    consumer.delete()
    assert render(consumer) == ""


def test_the_same_object_twice_counts_once(nc) -> None:
    """A scrape with a number twice would be refused as a whole."""
    assert len(render(nc, nc).splitlines()) == len(render(nc).splitlines())
    assert len(re.findall("TYPE jetsync_connection_up ", render(nc, nc))) == 1


def test_odd_texts_and_numbers_are_escaped() -> None:
    odd = Given(
        Measurement("jetsync_x", 'help\n with "quotes" \\', float("inf"), {"a": 'l\n"\\'}),
        Measurement("jetsync_y_total", "y", 3),
    )
    texts = {one.name: one.documentation for one in text_string_to_metric_families(render(odd))}
    assert texts["jetsync_x"] == 'help\n with "quotes" \\'
    found = samples(render(odd))
    assert found["jetsync_x", (("a", 'l\n"\\'),)] == float("inf")
    assert found["jetsync_y_total", ()] == 3


def test_buckets_hold_what_took_at_most_so_long() -> None:
    between = [1, 0, 2, *[0] * (len(BOUNDS) - 4), 4, 5]
    buckets = cumulated(between)
    assert [bound for bound, _ in buckets] == list(BOUNDS)
    assert [count for _, count in buckets] == [1, 1, *[3] * (len(BOUNDS) - 3), 7]
    shown = render(Given(Measurement("jetsync_z", "z", 1.5, count=12, buckets=buckets)))
    found = samples(shown)
    assert found["jetsync_z_bucket", (("le", "0.025"),)] == 3
    assert found["jetsync_z_bucket", (("le", "300.0"),)] == 7
    assert found["jetsync_z_bucket", (("le", "+Inf"),)] == found["jetsync_z_count", ()] == 12
    assert found["jetsync_z_sum", ()] == 1.5


def test_an_object_that_raises_is_left_out_and_without_any_other_there_is_no_answer(
    nc, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def measurements(self) -> list[Measurement]:
            raise jetsync.ConnectionClosedError("the connection is closed")

    with serve(Broken(), nc, port=0) as server:
        with urllib.request.urlopen(server.url, timeout=10) as answer:
            assert b"jetsync_connection_up" in answer.read()
        assert "an object has no numbers" in caplog.text
    with serve(Broken(), port=0) as server:
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(server.url, timeout=10)
        error.value.close()
        assert error.value.code == 503


def test_a_registry_reads_the_same(nc) -> None:
    registry = CollectorRegistry()
    registry.register(Collector(nc))
    value = registry.get_sample_value("jetsync_connection_up", {"connection": 'a "name"\\'})
    assert value == 1


def test_numbers_are_served_over_http(nc) -> None:
    with serve(nc, port=0) as server:
        with urllib.request.urlopen(server.url, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert ("jetsync_connection_up", (("connection", 'a "name"\\'),)) in samples(
                answer.read().decode()
            )
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(server.url.replace("metrics", "other"), timeout=10)
        error.value.close()
        assert error.value.code == 404
        with pytest.raises(jetsync.ConfigError, match="cannot listen"):
            serve(nc, port=server.port)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.url, timeout=10)


def test_the_room_needs_no_other_package() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import jetsync.prometheus as p\n"
        "print(repr(p.render()), 'jetsync.client' in sys.modules)\n"
        "try: p.Collector()\n"
        "except ValueError as error: print('jetsync[prometheus]' in str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["'' False", "True"]


class Broken:
    """An object of a user's own that fails."""

    def measurements(self) -> list[Measurement]:
        raise KeyError("on purpose")


def test_an_object_that_fails_hides_no_numbers_of_others(caplog) -> None:
    good = Given(Measurement("mine", "Mine.", 1.0))
    with serve(Broken(), good, port=0) as server:
        with urllib.request.urlopen(server.url, timeout=5) as answer:
            assert samples(answer.read().decode()) == {("mine", ()): 1.0}
        assert "KeyError: 'on purpose'" in caplog.text
    with serve(Broken(), port=0) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(server.url, timeout=5)
        caught.value.close()
        assert caught.value.code == 503
    with pytest.raises(KeyError):
        render(good, Broken())
