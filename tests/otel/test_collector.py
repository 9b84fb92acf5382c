"""A trace through a real collector: Rotel, of the package ``rotel``, where that is installed.

It takes spans by OTLP over HTTP, reads them, batches them, and sends them on by OTLP.
"""

from __future__ import annotations

import gzip
import http.server
import importlib.util
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import jetsync
import jetsync.otel
from jetsync.testing import wait_until


@pytest.fixture
def program(tmp_path: Path) -> Path:
    found = importlib.util.find_spec("rotel")
    if found is None or found.origin is None:
        pytest.skip("no wheel of rotel for this Python; test_spans reads the spans in this process")
    program = tmp_path / "collector"
    shutil.copy(Path(found.origin).parent / "rotel-agent", program)
    program.chmod(0o700)
    asked = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.skip(f"this machine forbids it ({asked.stderr}); test_spans reads the spans")
    return program


@pytest.fixture
def beyond() -> Iterator[tuple[int, list[Span]]]:
    """Where the collector sends spans: a port, and the spans that came."""
    spans: list[Span] = []

    class Backend(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    spans.extend(scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield server.server_port, spans
    server.shutdown()
    server.server_close()
    serving.join()


@pytest.fixture
def collector(program: Path, beyond: tuple[int, list[Span]]) -> Iterator[str]:
    """The address of a collector that runs."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    web, grpc = (one.getsockname()[1] for one in taken)
    for one in taken:
        one.close()
    options = {
        "otlp-http-endpoint": f"127.0.0.1:{web}",
        "otlp-grpc-endpoint": f"127.0.0.1:{grpc}",
        "otlp-exporter-endpoint": f"http://127.0.0.1:{beyond[0]}",
        "otlp-exporter-protocol": "http",
        "batch-timeout": "100ms",
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    running = subprocess.Popen([program, "start", *arguments], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(web), timeout=30)
        yield f"http://127.0.0.1:{web}/v1/traces"
    finally:
        running.terminate()
        running.wait(30)


def answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
    except urllib.error.HTTPError:
        return True  # it knows no such page
    except OSError:
        return False
    return True


def test_a_trace_from_a_web_request_to_a_key_and_back_reaches_a_collector(
    url: str, collector: str, beyond: tuple[int, list[Span]]
) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(collector)))
    jetsync.otel.instrument(tracer_provider=provider)
    try:
        with jetsync.connect(url) as nc, jetsync.connect(url) as other:
            js = nc.jetstream()
            js.create_stream(name="SHOP", subjects=["shop.>"], storage="memory")
            kv = other.jetstream().create_key_value(bucket="SHOP_STATE", storage="memory")

            def handle(msg: jetsync.JetStreamMsg) -> None:
                kv.put("order", msg.data)
                msg.ack_sync()
                other.publish("shop-done", b"")

            done = nc.subscribe("shop-done")
            nc.flush()
            consumer = other.jetstream().create_consumer("SHOP", durable_name="work")
            with (
                consumer.consume(handle),
                provider.get_tracer("web").start_as_current_span("POST /order"),
            ):
                js.publish("shop.order", b"one")
                done.next(timeout=20)
            js.delete_stream("SHOP")
            js.delete_key_value("SHOP_STATE")
    finally:
        jetsync.otel.uninstrument()
        provider.shutdown()
    names = {
        "POST /order": None,
        "publish shop.order": "POST /order",
        "process shop.order": "publish shop.order",
        "publish $KV.SHOP_STATE.order": "process shop.order",
        "ack shop.order": "process shop.order",
        "publish shop-done": "process shop.order",
    }

    def tree() -> dict[str, str | None]:
        by_id = {span.span_id: span.name for span in beyond[1]}
        return {span.name: by_id.get(span.parent_span_id) for span in beyond[1]}

    wait_until(lambda: names.items() <= tree().items(), timeout=20, message=lambda: f"{tree()}")
    sent, handled = (
        next(span for span in beyond[1] if span.name == name)
        for name in ("publish shop.order", "process shop.order")
    )
    assert [link.span_id for link in handled.links] == [sent.span_id]
    assert len({span.trace_id for span in beyond[1] if span.name in names}) == 1
    assert {a.key: a.value.int_value for a in handled.attributes}[
        "messaging.nats.stream_sequence"
    ] == 1
