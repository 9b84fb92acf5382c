"""Wire: the socket during the handshake, in plain or through TLS, as a WebSocket, by a proxy."""

from __future__ import annotations

import socket
from collections.abc import Generator, Mapping
from enum import Enum
from typing import Protocol, TypeVar

from jetsync._core.websocket import WebSocket
from jetsync._deadline import Deadline
from jetsync._printable import printable
from jetsync.client.tls_config import TLS, is_tls_error
from jetsync.errors import ConnectError, ProtocolError
from jetsync.protocol.proxy import ProxyURL, ask_proxy
from jetsync.protocol.url import ServerURL

__all__ = ["ByteFilter", "Step", "Wire"]

_MAX_LINE = 1 << 20
_READ = 65536

T = TypeVar("T")


class ByteFilter(Protocol):
    """A filter for the bytes of a link. The reader decodes while another thread encodes."""

    def decode(self, data: bytes | memoryview) -> list[bytes]:
        """Return the pieces that received bytes complete, not always all of them (``more``)."""

    def encode(self, data: bytes | memoryview) -> bytes:
        """Return what has to be sent for ``data``, with anything owed."""

    @property
    def owes(self) -> bool:
        """Whether there is something to send without any data."""

    @property
    def more(self) -> bool:
        """Whether ``decode(b"")`` has more of what was received."""

    @property
    def ended(self) -> bool:
        """Whether nothing may be sent any more."""


class Nested:
    """Two filters, one inside the other: TLS with the server, within TLS with the proxy; or a
    WebSocket within TLS."""

    def __init__(self, inner: ByteFilter, outer: ByteFilter) -> None:
        self._inner = inner
        self._outer = outer

    def decode(self, data: bytes | memoryview) -> list[bytes]:
        """See ``ByteFilter``."""
        return self._inner.decode(b"".join(self._outer.decode(data)))

    def encode(self, data: bytes | memoryview) -> bytes:
        """See ``ByteFilter``."""
        return self._outer.encode(self._inner.encode(data))

    @property
    def owes(self) -> bool:
        """See ``ByteFilter``."""
        return self._inner.owes or self._outer.owes

    @property
    def more(self) -> bool:
        """See ``ByteFilter``."""
        return self._inner.more or self._outer.more

    @property
    def ended(self) -> bool:
        """See ``ByteFilter``."""
        return self._inner.ended or self._outer.ended


class Step(Enum):
    """How far a handshake has come, for the error when it does not end in time."""

    PROXY = "the proxy did not connect us in time"
    UPGRADE = "the server did not answer the WebSocket upgrade in time"
    INFO = "the server did not send its INFO in time"
    LOGIN = (
        "the server did not answer the credentials in time: authentication may be slow, raise "
        "connect_timeout"
    )


class Wire:
    """One connected socket until its link is made: lines in, bytes out, all by one deadline."""

    def __init__(self, sock: socket.socket, deadline: Deadline, server: ServerURL) -> None:
        self.sock = sock
        self.step: Step = Step.INFO
        self.filter: ByteFilter | None = None
        self.tls: bool = False
        self.websocket: WebSocket | None = None
        self._server = server
        self._deadline = deadline
        self._bytes = bytearray()

    def pass_proxy(self, proxy: ProxyURL, target: str) -> None:
        """Ask the proxy at the other end for a connection to the server. Raises ConnectError with
        what it says, OSError."""
        self.step = Step.PROXY
        if proxy.scheme == "https":
            from jetsync.client.tls import TLSFilter, make_context

            outer = TLSFilter(make_context(None), proxy.host)
            try:
                outer.handshake(self.sock, self._deadline)
            except OSError as error:
                if not is_tls_error(error):
                    raise
                raise ConnectError(
                    f"TLS with the proxy {proxy.netloc} failed: {error.reason or error}"
                ) from error
            self.filter = outer
        self._bytes = bytearray(self._converse(ask_proxy(proxy, target, self._server.port)))
        self.step = Step.INFO

    def start_tls(self, tls: TLS | None, hostname: str) -> None:
        """Speak TLS from now on. Bytes that came in plain and were not read yet are thrown away."""
        from jetsync.client.tls import TLSFilter, make_context

        self._bytes = bytearray()
        inner, outer = TLSFilter(make_context(tls), hostname), self.filter
        if outer is None:
            inner.handshake(self.sock, self._deadline)
            self.filter = inner
        else:
            inner.handshake(_Tunnel(self), self._deadline)
            self.filter = Nested(inner, outer)
        self.tls = True

    def start_websocket(self, path: str, headers: Mapping[str, str], *, deflate: bool) -> None:
        """Ask for a WebSocket, and speak in its frames from now on. Raises ConnectError with the
        answer of the server, OSError."""
        from jetsync.protocol.upgrade import ask_websocket

        self.step = Step.UPGRADE
        talk = ask_websocket(self._server.netloc, path, headers, deflate=deflate)
        agreed, behind = self._converse(talk)
        self.websocket = WebSocket(agreed)
        outer, self.filter = self.filter, self.websocket
        self._bytes = bytearray(self._decoded(behind))
        if outer is not None:
            self.filter = Nested(self.websocket, outer)
        self.step = Step.INFO

    def _converse(self, talk: Generator[bytes, bytes, T]) -> T:
        """Send what a talk yields, and tell it what arrives, until it returns."""
        try:
            words = next(talk)
            while True:
                if words:
                    self.send(words)
                words = talk.send(self._receive())
        except StopIteration as end:
            found: T = end.value
            return found

    def send(self, data: bytes) -> None:
        """Send all of it. Raises OSError."""
        self.sock.settimeout(max(self._deadline.within(60.0), 0.001))
        self.sock.sendall(data if self.filter is None else self.filter.encode(data))

    def line(self) -> bytes:
        """Return the next line without its end. Raises ConnectError, ProtocolError, OSError."""
        if self._deadline.expired:  # although enough lines are here: a server may send any number
            raise self._too_late()
        while b"\r\n" not in self._bytes:
            if len(self._bytes) > _MAX_LINE:
                raise ProtocolError("the server sent an endless first line")
            goodbye = self.websocket.goodbye if self.websocket is not None else None
            if goodbye is not None:
                raise ConnectError(
                    f"{self._server.netloc} closed the WebSocket: {printable(goodbye)}"
                )
            self._bytes += self._receive()
        end = self._bytes.index(b"\r\n")
        line = bytes(self._bytes[:end])
        del self._bytes[: end + 2]
        return line

    def rest(self) -> bytes:
        """Return what came behind the last line."""
        return bytes(self._bytes)

    def has_line(self, start: bytes, seconds: float) -> bool:
        """Wait until a whole line that begins with this prefix is there, and leave it. False:
        another line came, or none within the seconds."""
        limit = Deadline(min(seconds, self._deadline.within(60.0)))
        while self._bytes.startswith(start) or start.startswith(bytes(self._bytes)):
            if b"\r\n" in self._bytes:
                return True
            left = limit.within(60.0)
            if left <= 0 or len(self._bytes) > _MAX_LINE:
                return False
            self.sock.settimeout(left)
            try:
                data = self.sock.recv(_READ)
            except TimeoutError:
                return False
            if not data:
                return False  # the reader finds out
            self._bytes += self._decoded(data)
        return False

    def peek_line(self) -> bytes:
        """Return the line that ``has_line`` has found."""
        return bytes(self._bytes.partition(b"\r\n")[0])

    def _receive(self) -> bytes:
        left = self._deadline.within(60.0)
        if left <= 0:
            raise self._too_late()
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(_READ)
        except TimeoutError:
            raise self._too_late() from None
        if not data:
            who = "proxy" if self.step is Step.PROXY else "server"
            raise ConnectError(f"the {who} closed the connection during the handshake")
        return self._decoded(data)

    def _decoded(self, data: bytes) -> bytes:
        if self.filter is None:
            return data
        try:
            pieces = self.filter.decode(data)
            while self.filter.more:
                if sum(map(len, pieces)) > _MAX_LINE:
                    raise ProtocolError("more than a handshake holds")
                pieces += self.filter.decode(b"")
        except ProtocolError as error:
            raise ProtocolError(f"{self._server.netloc} sent {error}") from None
        return b"".join(pieces)

    def _too_late(self) -> ConnectError:
        hint = ""
        if self.step is Step.INFO and not self.tls and self.websocket is None:
            hint = "; if it expects TLS first, set tls_handshake_first"
        return ConnectError(f"{self._server.netloc}: {self.step.value}{hint}")


class _Tunnel:
    """As much of a socket as the handshake of TLS needs, inside of the TLS of a proxy."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def settimeout(self, seconds: float) -> None:
        self._wire.sock.settimeout(seconds)

    def sendall(self, data: bytes) -> None:
        self._wire.send(data)

    def recv(self, size: int) -> bytes:
        assert self._wire.filter is not None
        while True:
            data = self._wire.sock.recv(size)
            plain = b"".join(self._wire.filter.decode(data)) if data else b""
            if plain or not data:
                return plain
