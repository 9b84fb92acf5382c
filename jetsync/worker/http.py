"""/livez, /readyz and /metrics of a worker, for orchestrators."""

from __future__ import annotations

import dataclasses
import json
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Protocol

from jetsync._threads import start_thread
from jetsync.errors import ConfigError
from jetsync.prometheus import render
from jetsync.worker.options import http_address

if TYPE_CHECKING:
    from jetsync._measurement import Measurement
    from jetsync.worker.report import WorkerHealth

__all__ = ["HealthServer"]


class _Worker(Protocol):
    def health(self) -> WorkerHealth: ...
    def measurements(self) -> list[Measurement]: ...


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
        return 200, "text/plain; version=0.0.4; charset=utf-8", render(worker)
    if path not in ("/livez", "/readyz"):
        return 404, "text/plain; charset=utf-8", "there are /livez, /readyz and /metrics\n"
    health = worker.health()
    good = health.alive if path == "/livez" else health.ready
    return (
        200 if good else 503,
        "application/json",
        json.dumps(dataclasses.asdict(health)) + "\n",
    )
