"""Making one link: name lookup, TCP, INFO, TLS, CONNECT, PONG, all within one deadline."""

from __future__ import annotations

import dataclasses
import os
import random
import socket
import ssl
import time
from collections.abc import Callable

from jetsync._deadline import Deadline
from jetsync.client.latch import Once
from jetsync.client.options import ConnectOptions
from jetsync.client.pongs import Pongs, RoundTrip
from jetsync.client.tls import TLSFilter, make_context
from jetsync.errors import AuthorizationError, ConnectError, ProtocolError, TLSRequiredError
from jetsync.protocol.auth import Credentials
from jetsync.protocol.connect import connect_payload
from jetsync.protocol.info import ServerInfo
from jetsync.protocol.server_errors import ServerErrorInfo
from jetsync.protocol.url import ServerURL

__all__ = ["Link", "dial"]

_MAX_LINE = 1 << 20


@dataclasses.dataclass
class Link:
    """One established link: a socket that the server has accepted us on."""

    server: ServerURL
    sock: socket.socket
    info: ServerInfo
    leftover: bytes
    """What came behind the PONG; the reader has to see it first."""
    tls: TLSFilter | None
    round_trip: float
    """Seconds from the CONNECT to its PONG."""
    pongs: Pongs = dataclasses.field(default_factory=lambda: Pongs(RoundTrip()))
    suspicion: Exception | None = None
    """Why it was shut down by this side, or is about to be closed by the server."""
    leaves: Once = dataclasses.field(default_factory=Once)
    """Asked once: whether the announced shutdown of the server is dealt with."""


def dial(
    server: ServerURL,
    options: ConnectOptions,
    credentials: Credentials,
    deadline: Deadline,
    watch: Callable[[socket.socket], None],
) -> Link:
    """Connect to one server. Blocks until the deadline at most (name lookup is the system's).

    Every address of the name is tried; ``watch`` gets every socket before it is used. Raises
    ConnectError, AuthorizationError, TLSRequiredError, ProtocolError or OSError; no descriptor is
    left open then.
    """
    sock = _open(server, deadline, watch)
    try:
        wire = _Wire(sock, deadline)
        try:
            info = _greet(wire, server, options)
            # Secrets are asked for, and leave, only now: behind TLS where TLS is asked for.
            fields = credentials.resolve(info.nonce, server=server)
            secure = wire.tls is not None
            hello = connect_payload(
                auth=fields, name=options.name, echo=options.echo, tls_required=secure
            )
            sent = time.monotonic()
            wire.send(hello + b"PING\r\n")
            info = _await_pong(wire, info, server)
            round_trip = time.monotonic() - sent
        except ssl.SSLError as error:
            raise _tls_trouble(error, server, options) from error
        sock.settimeout(None)
        # The loops in C wait inside of recv(); a socket that gevent has patched would not let them.
        os.set_blocking(sock.fileno(), True)
        return Link(server, sock, info, wire.rest(), wire.tls, round_trip)
    except BaseException:
        sock.close()
        raise


def _greet(wire: _Wire, server: ServerURL, options: ConnectOptions) -> ServerInfo:
    """Read INFO and start TLS, in the order that this server and these options want."""
    name = options.tls_hostname or server.hostname
    if options.tls_handshake_first:
        wire.start_tls(make_context(options.tls), name)
        return _read_info(wire, server)
    info = _read_info(wire, server)
    asked = bool(options.tls) or server.requires_tls
    if asked and not (info.tls_required or info.tls_available):
        raise TLSRequiredError(
            f"{server.netloc} offers no TLS, and this connection must not do without: nothing was "
            "sent; configure TLS on the server, or drop tls:// and the tls option"
        )
    if asked or info.tls_required:
        wire.start_tls(make_context(options.tls), name)
        # Anybody on the way could have written it; the server repeats it behind TLS.
        info = dataclasses.replace(info, connect_urls=())
    return info


def _tls_trouble(error: ssl.SSLError, server: ServerURL, options: ConnectOptions) -> ConnectError:
    text = str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = f"the certificate was not accepted: {error.verify_message}"
    elif "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text:
        hint = f"the server refused us, it may want a client certificate: {error.reason}"
    elif "BAD_CERTIFICATE" in text or "UNKNOWN_CA" in text:
        hint = f"the server did not accept the client certificate: {error.reason}"
    elif "WRONG_VERSION_NUMBER" in text and options.tls_handshake_first:
        hint = "the server does not start with TLS; leave tls_handshake_first away"
    else:
        hint = error.reason or text
    return ConnectError(f"TLS with {server.netloc} failed: {hint}")


def _open(
    server: ServerURL, deadline: Deadline, watch: Callable[[socket.socket], None]
) -> socket.socket:
    addresses = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
    random.shuffle(addresses)
    last: OSError | None = None
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        # A dead first address must leave time for the others.
        share = deadline.within(60.0) / (len(addresses) - tried)
        if share <= 0:
            break
        sock = socket.socket(family, kind, protocol)
        try:
            watch(sock)
            sock.settimeout(share)
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            last = error
    reason = last.strerror or str(last) if last else "no time left"
    raise ConnectError(f"cannot reach {server.netloc}: {reason}") from last


class _Wire:
    """The socket during the handshake: lines in, bytes out, in plain or through TLS."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._bytes = b""
        self.tls: TLSFilter | None = None

    def start_tls(self, context: ssl.SSLContext, hostname: str) -> None:
        """Speak TLS from now on. What was received in plain and not yet read is not believed."""
        self._bytes = b""
        self.tls = TLSFilter(context, hostname)
        self.tls.handshake(self._sock, self._deadline)

    def send(self, data: bytes) -> None:
        self._sock.settimeout(max(self._deadline.within(60.0), 0.001))
        self._sock.sendall(data if self.tls is None else self.tls.encrypt(data))

    def line(self) -> bytes:
        while b"\r\n" not in self._bytes:
            if len(self._bytes) > _MAX_LINE:
                raise ProtocolError("the server sent an endless first line")
            self._bytes += self._receive()
        line, _, self._bytes = self._bytes.partition(b"\r\n")
        return line

    def _receive(self) -> bytes:
        left = self._deadline.within(60.0)
        if left <= 0:
            raise self._too_late()
        self._sock.settimeout(left)
        try:
            data = self._sock.recv(65536)
        except TimeoutError:
            raise self._too_late() from None
        if not data:
            raise ConnectError("the server closed the connection during the handshake")
        return data if self.tls is None else b"".join(self.tls.decrypt(data))

    def _too_late(self) -> ConnectError:
        return ConnectError(
            "the server did not complete the handshake in time"
            + ("" if self.tls else "; if it expects TLS first, set tls_handshake_first")
        )

    def rest(self) -> bytes:
        return self._bytes


def _read_info(wire: _Wire, server: ServerURL) -> ServerInfo:
    line = wire.line()
    if line.startswith(b"-ERR"):
        raise _refusal(line, server)
    if not line.startswith(b"INFO"):
        raise ProtocolError(f"{server.netloc} does not speak NATS: it did not send INFO first")
    return ServerInfo.parse(line[4:].strip())


def _await_pong(wire: _Wire, info: ServerInfo, server: ServerURL) -> ServerInfo:
    while True:
        line = wire.line()
        if line == b"PONG":
            return info
        if line.startswith(b"INFO"):
            info = ServerInfo.parse(line[4:].strip())
        elif line.startswith(b"-ERR"):
            raise _refusal(line, server)
        elif line not in (b"PING", b"+OK"):
            raise ProtocolError(f"{server.netloc} sent an unexpected line during the handshake")


def _refusal(line: bytes, server: ServerURL) -> Exception:
    error = ServerErrorInfo.parse(line).error
    if isinstance(error, AuthorizationError):
        return AuthorizationError(f"{server.netloc} refused the credentials: {error}")
    return ConnectError(f"{server.netloc} refused the connection: {error}")
