"""How the suite reaches its servers: JETSYNC_TEST_LINK=ws, wss, deflate, http or socks5.

Unset, tests connect straight, as they say. Otherwise every ``NatsServer`` gets a WebSocket listener
and names that as its URL, or every connection goes through a real proxy; tests that write URLs of
their own stay on TCP, as do bare sockets and other clients, by ``straight(url)``. So the suites of
the client and of JetStream run over other links unchanged.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import trustme

from jetsync import ConnectOptions
from jetsync.server import NatsServer
from jetsync.server import server as module
from jetsync.server.config import Config
from jetsync.server.config import render as original
from jetsync.server.ports import HOST
from tests.harness.proxies import http_proxy, socks_proxy
from tests.harness.websockets import listener

ENVIRONMENT_VARIABLE = "JETSYNC_TEST_LINK"
KINDS = ("ws", "wss", "deflate", "http", "socks5")

HOW = os.environ.get(ENVIRONMENT_VARIABLE, "")
assert HOW in ("", *KINDS), f"{ENVIRONMENT_VARIABLE} must be one of {', '.join(KINDS)}"

_LISTENER = re.compile(r"^websocket \{\n.*\nport: (\d+)$", re.MULTILINE)
_STRAIGHT: dict[str, str] = {}
"""The URL of a server's WebSocket listener -> that of its port for plain TCP."""


def straight(url: str) -> str:
    """Return where a client that is not the library's reaches the server of this URL."""
    return _STRAIGHT.get(url, url)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "straight: belongs to TCP straight to the server, not to JETSYNC_TEST_LINK: a proxy finds "
        "names and addresses by itself, and 127.0.0.1 is its own there",
    )


@pytest.fixture(scope="session", autouse=HOW != "")
def link() -> Iterator[None]:
    """Make every connection of the session one of the wanted kind."""
    with pytest.MonkeyPatch.context() as patch:
        if HOW in ("http", "socks5"):
            with http_proxy() if HOW == "http" else socks_proxy() as port:
                _through(patch, f"{HOW}://127.0.0.1:{port}")
                yield
        else:
            with tempfile.TemporaryDirectory() as folder:
                _by_websocket(patch, Path(folder))
                yield


def _listeners() -> Iterator[int]:
    """Yield free ports that nothing else takes before the server begins to listen: neither another
    ``NatsServer`` (below 30,000) nor the system (above 32,768) nor another process of the run."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in itertools.cycle(range(30_000 + 250 * process, 30_250 + 250 * process)):
        try:
            socket.create_server((HOST, port)).close()
        except OSError:
            continue
        yield port


def _through(patch: pytest.MonkeyPatch, proxy: str) -> None:
    original = ConnectOptions._proxy_to

    def proxy_to(options: ConnectOptions, host: str) -> object:
        if options.proxy is None:
            options = ConnectOptions(proxy=proxy)
        return original(options, host)

    patch.setattr(ConnectOptions, "_proxy_to", proxy_to)


def _by_websocket(patch: pytest.MonkeyPatch, folder: Path) -> None:
    tls = None
    if HOW == "wss":
        authority = trustme.CA()
        leaf = authority.issue_cert("127.0.0.1")
        leaf.cert_chain_pems[0].write_to_path(folder / "cert.pem")
        leaf.private_key_pem.write_to_path(folder / "key.pem")
        authority.cert_pem.write_to_path(folder / "ca.pem")
        tls = (folder / "cert.pem", folder / "key.pem")
        patch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))  # whom the system trusts

    ports = _listeners()
    kept = ContextVar("kept", default=0)  # the port of the server that reads its file again
    reload = NatsServer.reload

    def render(config: Config | None, name: str) -> str:
        port = kept.get() or next(ports)
        return original(config, name) + listener(port, tls=tls, compression=HOW == "deflate")

    def port_of(server: NatsServer) -> int:
        return int(_LISTENER.findall(server._config)[-1])

    def reload_there(server: NatsServer, *given: Any, **named: Any) -> None:
        token = kept.set(port_of(server))
        try:
            reload(server, *given, **named)
        finally:
            kept.reset(token)

    def url(server: NatsServer) -> str:
        found = f"{'wss' if tls else 'ws'}://{HOST}:{port_of(server)}"
        _STRAIGHT[found] = f"nats://{HOST}:{server.port}"
        return found

    patch.setattr(module, "render", render)
    patch.setattr(NatsServer, "reload", reload_there)
    patch.setattr(NatsServer, "url", property(url))
    if HOW == "deflate":
        # The default value of a field of a dataclass is that of its `__init__`.
        made = ConnectOptions.__init__

        def init(self: ConnectOptions, *given: object, **named: object) -> None:
            made(self, *given, **{"ws_compression": True, **named})  # type: ignore[arg-type]

        patch.setattr(ConnectOptions, "__init__", init)
