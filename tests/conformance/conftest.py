"""A server and the smallest of clients, for tests of configurations."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from jetsync import JetStream, Stream
from jetsync.errors.api import api_error
from jetsync.jetstream.config.stream import StreamConfig
from jetsync.server import NatsServer
from tests.conformance.json_api import API, ask_js, put_stream


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A nats-server of the module's own."""
    with NatsServer() as server:
        yield server.port


@pytest.fixture(scope="module")
def api(port: int) -> Iterator[API]:
    """Ask the JetStream API on one socket; an error in the answer is raised."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        reader = sock.makefile("rb")
        sock.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB inbox 1\r\n')

        def ask(subject: str, body: Mapping[str, Any] | bytes | None = None) -> dict[str, Any]:
            data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
            sock.sendall(b"PUB %s inbox %d\r\n%s\r\n" % (subject.encode(), len(data), data))
            while True:
                line = reader.readline()
                assert line, "the server closed the connection"
                assert not line.startswith(b"-ERR"), line
                if line.startswith(b"PING"):
                    sock.sendall(b"PONG\r\n")
                elif line.startswith(b"MSG"):
                    size = int(line.split()[-1])
                    answer: dict[str, Any] = json.loads(reader.read(size + 2))
                    if answer.get("error"):
                        raise api_error(answer["error"])
                    return answer

        yield ask
        reader.close()


@pytest.fixture
def clean(api: API) -> API:
    """The API of a server without streams but one: a server that makes a stream right after it
    deleted its last one fails now and then (10049)."""
    put_stream(api, StreamConfig(name="KEPT", subjects=["kept"]))
    for name in ask_js(api, "STREAM.NAMES")["streams"] or []:
        if name != "KEPT":
            ask_js(api, f"STREAM.DELETE.{name}")
    return api


@pytest.fixture
def stream(js: JetStream, request: pytest.FixtureRequest) -> Iterator[Stream]:
    """A fresh stream; its subjects begin with its name."""
    js.create_or_update_stream(name="KEEP", subjects=["keep"], storage="memory")
    name = f"SUB{abs(hash(request.node.nodeid)) % 10**9}"
    made = js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    yield made
    made.delete()


@pytest.fixture
def subject(stream: Stream) -> str:
    return f"{stream.name}.a"
