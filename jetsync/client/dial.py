"""Making one link: name lookup, TCP, INFO, CONNECT, PONG, all within one deadline."""

from __future__ import annotations

import dataclasses
import random
import socket

from jetsync._deadline import Deadline
from jetsync.client.options import ConnectOptions
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


def dial(
    server: ServerURL, options: ConnectOptions, credentials: Credentials, deadline: Deadline
) -> Link:
    """Connect to one server. Blocks until the deadline at most (name lookup is the system's).

    Every address of the name is tried. Raises ConnectError, AuthorizationError, TLSRequiredError,
    ProtocolError or OSError; no descriptor is left open then.
    """
    sock = _open(server, deadline)
    try:
        lines = _Lines(sock, deadline)
        info = _read_info(lines, server)
        fields = credentials.resolve(info.nonce, server=server)
        sock.sendall(
            connect_payload(auth=fields, name=options.name, echo=options.echo) + b"PING\r\n"
        )
        info = _await_pong(lines, info, server)
        sock.settimeout(None)
        return Link(server, sock, info, lines.rest())
    except BaseException:
        sock.close()
        raise


def _open(server: ServerURL, deadline: Deadline) -> socket.socket:
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
            sock.settimeout(share)
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            last = error
    reason = last.strerror or str(last) if last else "no time left"
    raise ConnectError(f"cannot reach {server.netloc}: {reason}") from last


class _Lines:
    """Reads single lines from a socket; whatever follows stays available."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._bytes = b""

    def next(self) -> bytes:
        while b"\r\n" not in self._bytes:
            if len(self._bytes) > _MAX_LINE:
                raise ProtocolError("the server sent an endless first line")
            left = self._deadline.within(60.0)
            if left <= 0:
                raise ConnectError("the server did not complete the handshake in time")
            self._sock.settimeout(left)
            try:
                chunk = self._sock.recv(65536)
            except TimeoutError:
                raise ConnectError("the server did not complete the handshake in time") from None
            if not chunk:
                raise ConnectError("the server closed the connection during the handshake")
            self._bytes += chunk
        line, _, self._bytes = self._bytes.partition(b"\r\n")
        return line

    def rest(self) -> bytes:
        return self._bytes


def _read_info(lines: _Lines, server: ServerURL) -> ServerInfo:
    line = lines.next()
    if line.startswith(b"-ERR"):
        raise _refusal(line, server)
    if not line.startswith(b"INFO"):
        raise ProtocolError(f"{server.netloc} does not speak NATS: it did not send INFO first")
    info = ServerInfo.parse(line[4:].strip())
    if info.tls_required:
        raise TLSRequiredError(f"{server.netloc} requires TLS, which this version does not support")
    return info


def _await_pong(lines: _Lines, info: ServerInfo, server: ServerURL) -> ServerInfo:
    while True:
        line = lines.next()
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
