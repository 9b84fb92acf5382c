"""/livez, /readyz and /metrics of a worker, for orchestrators."""

from __future__ import annotations

import dataclasses
import json
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Protocol

from jetsync._measurement import cumulated
from jetsync._threads import start_thread
from jetsync.errors import ConfigError
from jetsync.worker.options import http_address
from jetsync.worker.report import KINDS

if TYPE_CHECKING:
    from jetsync.worker.report import WorkerHealth, WorkerStats

__all__ = ["HealthServer"]


class _Worker(Protocol):
    def health(self) -> WorkerHealth: ...
    @property
    def stats(self) -> WorkerStats: ...


class HealthServer:
    """A small HTTP server on a thread of its own. Raises ConfigError when it cannot listen."""

    def __init__(self, address: str, worker: _Worker) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = 2.0  # a silent client must not block the others

            def do_GET(self) -> None:
                code, kind, text = answer(self.path, worker)
                body = text.encode()
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Requests for health are not logged."""

        where = http_address(address)

        class Server(HTTPServer):
            address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET

        try:
            self._server = Server(where, Handler)
        except OSError as error:
            raise ConfigError(f"http={address!r}: {error.strerror or error}") from error
        self.port: int = self._server.server_address[1]
        self._thread = start_thread("worker-http", lambda: self._server.serve_forever(0.1))

    def close(self) -> None:
        """Stop it and join its thread."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def answer(path: str, worker: _Worker) -> tuple[int, str, str]:
    """Return status, content type and body for a path."""
    path = path.partition("?")[0]
    if path == "/metrics":
        return 200, "text/plain; version=0.0.4; charset=utf-8", metrics(worker)
    if path not in ("/livez", "/readyz"):
        return 404, "text/plain; charset=utf-8", "there are /livez, /readyz and /metrics\n"
    health = worker.health()
    good = health.alive if path == "/livez" else health.ready
    return (
        200 if good else 503,
        "application/json",
        json.dumps(dataclasses.asdict(health)) + "\n",
    )


def metrics(worker: _Worker) -> str:
    """Return the counts of a worker in the text format of Prometheus."""
    stats, health = worker.stats, worker.health()
    lines = [
        "# HELP jetsync_worker_messages_total Outcomes of deliveries.",
        "# TYPE jetsync_worker_messages_total counter",
    ]
    lines += [
        f'jetsync_worker_messages_total{{outcome="{kind}"}} {getattr(stats, kind)}'
        for kind in KINDS
    ]
    name = "jetsync_worker_handle_duration_seconds"
    lines += [f"# HELP {name} How long handlers ran.", f"# TYPE {name} histogram"]
    lines += [
        f'{name}_bucket{{le="{bound:g}"}} {count}' for bound, count in cumulated(stats.buckets)
    ]
    lines.append(f'{name}_bucket{{le="+Inf"}} {stats.handled}')
    lines += [f"{name}_sum {stats.handle_seconds:.6f}", f"{name}_count {stats.handled}"]
    for short, text, value in (
        ("in_flight", "Handlers that run.", health.in_flight),
        ("oldest_seconds", "How long the oldest of them has run.", health.oldest_seconds),
    ):
        name = f"jetsync_worker_{short}"
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {value:g}"]
    return "\n".join(lines) + "\n"
