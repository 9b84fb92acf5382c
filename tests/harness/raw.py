"""A tiny blocking NATS client for tests that must not depend on the library's own."""

from __future__ import annotations

import json
import socket
import uuid
from typing import Any
from urllib.parse import urlsplit

from tests.harness.links import straight

PATIENCE = 20.0
CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"protocol":1,"headers":true,"no_responders":true}'
    b"\r\n"
)


class RawClient:
    """A socket to a NATS server: sends exactly the bytes it is given.

    ``with RawClient(url) as raw: raw.send(b"PING\\r\\n"); raw.read_until(b"PONG\\r\\n")``
    """

    def __init__(self, url: str, *, timeout: float = PATIENCE) -> None:
        where = urlsplit(straight(url))
        self.socket = socket.create_connection((where.hostname, where.port or 4222), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def handshake(self) -> dict[str, Any]:
        """Read INFO, send CONNECT and PING, wait for PONG; return the INFO."""
        info: dict[str, Any] = json.loads(self.read_line().removeprefix(b"INFO "))
        self.send(CONNECT + b"PING\r\n")
        self.read_until(b"PONG\r\n")
        return info

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_until(self, mark: bytes) -> bytes:
        """Return everything up to and including the mark; fail when the server ends before."""
        while mark not in self._unread:
            self._receive(mark)
        found, _, self._unread = self._unread.partition(mark)
        return found + mark

    def read_line(self) -> bytes:
        """Return one line without its CRLF."""
        return self.read_until(b"\r\n")[:-2]

    def read_exactly(self, count: int) -> bytes:
        while len(self._unread) < count:
            self._receive(b"%d bytes" % count)
        found, self._unread = self._unread[:count], self._unread[count:]
        return found

    def read_to_end(self) -> bytes:
        """Return everything until the server ends the connection, in order or by a reset."""
        try:
            while piece := self.socket.recv(65536):
                self._unread += piece
        except ConnectionResetError:
            pass
        found, self._unread = self._unread, b""
        return found

    def request(self, subject: str, payload: bytes = b"") -> bytes:
        """Publish with a reply subject of its own and return the payload of the first answer."""
        reply = b"_INBOX." + uuid.uuid4().hex.encode()
        name = subject.encode()
        self.send(b"SUB %s 1\r\nUNSUB 1 1\r\n" % reply)
        self.send(b"PUB %s %s %d\r\n%s\r\n" % (name, reply, len(payload), payload))
        while not (line := self.read_line()).startswith((b"MSG ", b"HMSG ")):
            assert not line.startswith(b"-ERR"), line
        sizes = line.split()
        body = self.read_exactly(int(sizes[-1]) + 2)[:-2]
        return body[int(sizes[-2]) :] if line.startswith(b"HMSG ") else body

    def api(self, subject: str, **request: Any) -> dict[str, Any]:
        """Ask the JetStream API, e.g. ``api("STREAM.INFO.S")``; fail on an error answer."""
        answer = self.request(f"$JS.API.{subject}", json.dumps(request).encode())
        decoded: dict[str, Any] = json.loads(answer)
        assert "error" not in decoded, decoded
        return decoded

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self, mark: bytes) -> None:
        piece = self.socket.recv(65536)
        if not piece:
            raise AssertionError(f"the server ended; wanted {mark!r}, have {self._unread!r}")
        self._unread += piece
