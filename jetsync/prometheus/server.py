"""MetricsServer: answers ``GET /metrics`` over HTTP, on one thread, on this machine unless told."""

from __future__ import annotations

import http.server
import socket
from types import TracebackType

from jetsync._log import Log
from jetsync._threads import start_thread
from jetsync.errors import ConfigError
from jetsync.prometheus.text import Measured, as_text, families

__all__ = ["MetricsServer", "serve"]

logger: Log = Log("jetsync.connection")

_REQUEST_SECONDS = 5.0


class MetricsServer:
    """An HTTP server with the numbers of some objects. Made by ``serve``; a context manager."""

    def __init__(self, objects: tuple[Measured, ...], port: int, address: str) -> None:
        class Handler(_Handler):
            measured = objects

        try:
            self._server = _Server((address, port), Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"cannot listen on {address}:{port}: {error}") from None
        self._thread = start_thread("metrics", self._run)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where the numbers are."""
        host = str(self._server.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"

    def close(self) -> None:
        """Stop answering and end the thread. Blocks until the present answer is sent."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _run(self) -> None:
        self._server.serve_forever(poll_interval=0.1)

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def serve(*objects: Measured, port: int, address: str = "127.0.0.1") -> MetricsServer:
    """Answer ``GET /metrics`` with the numbers of these objects, on a thread of its own.

    ``port`` 0 takes a free one (``MetricsServer.port``). ``address`` is this machine alone unless
    told otherwise: there is no sign-in. Objects that raise are left out of an answer, with a
    warning in the log; when all of them do, the answer is 503. Does not block. Raises ConfigError
    when the port is taken.
    """
    return MetricsServer(objects, port, address)


class _Server(http.server.HTTPServer):
    def __init__(
        self, address: tuple[str, int], handler: type[http.server.BaseHTTPRequestHandler]
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    measured: tuple[Measured, ...] = ()
    timeout = _REQUEST_SECONDS  # one slow client must not keep the others waiting for ever

    def do_GET(self) -> None:
        """Answer a scrape."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404)
            return
        errors: list[Exception] = []
        text = as_text(families(self.measured, errors.append)).encode()
        for error in errors:
            logger.warning("metrics: an object has no numbers", error=error)
        if errors and len(errors) == len(self.measured):
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Log to the library's logger, not to stderr."""
        logger.debug("metrics: " + format, *args)
