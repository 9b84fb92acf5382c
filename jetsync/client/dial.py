"""Making one link: name lookup, TCP, TLS, WebSocket, INFO, CONNECT, PONG, by one deadline."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import os
import random
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync._core.websocket import WebSocket
from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync._latch import Once
from jetsync._native import original
from jetsync.client.options import ConnectOptions
from jetsync.client.pongs import Pongs, RoundTrip
from jetsync.client.tls_config import is_tls_error
from jetsync.client.trace import traced
from jetsync.client.wire import ByteFilter, Step, Wire
from jetsync.errors import (
    AuthorizationError,
    ConfigError,
    ConnectError,
    Error,
    ProtocolError,
    TLSRequiredError,
)
from jetsync.protocol.auth import Credentials
from jetsync.protocol.connect import connect_payload
from jetsync.protocol.info import ServerInfo
from jetsync.protocol.proxy import ProxyURL
from jetsync.protocol.server_errors import ServerErrorInfo
from jetsync.protocol.url import ServerURL

if TYPE_CHECKING:
    import ssl

__all__ = ["Link", "dial"]

_Address = tuple[Any, Any, int, str, Any]
"""One address as the system's name lookup returns it."""

_BEGINS_IN_PLAIN = "the server does not start with TLS; leave tls_handshake_first away"
_ACCOUNT_INFO = 2  # the API level of 2.12
_ACCOUNT_WAIT = 0.05


@dataclasses.dataclass
class Link:
    """One established link: a socket on which a server has accepted this client."""

    server: ServerURL
    sock: socket.socket
    info: ServerInfo
    leftover: bytes
    """Bytes that arrived behind the PONG; the reader parses them first."""
    filter: ByteFilter | None
    """The filter of the bytes: TLS with the server or a proxy, a WebSocket; None: they pass in
    plain."""
    tls: bool
    """Whether the server itself speaks TLS."""
    round_trip: float
    """Seconds from the CONNECT to its PONG."""
    hearsay: tuple[str, ...] = ()
    """Servers named by an INFO before TLS began, of a server that does not repeat them behind
    TLS."""
    websocket: WebSocket | None = None
    peer: tuple[str, int] | None = None
    """Address and port of the other end of the socket: the server, or a proxy."""
    is_near: bool = False
    """Whether the server is on this machine or on its own network link."""
    pongs: Pongs = dataclasses.field(default_factory=lambda: Pongs(RoundTrip()))
    suspicion: Exception | None = None
    """Why this side shut the socket down, or why the server is about to close it."""
    leaves: Once = dataclasses.field(default_factory=Once)
    """True for the first caller: that one acts on the announced shutdown of the server."""

    @functools.cached_property
    def url(self) -> str:
        """The server as text, without secrets."""
        return str(self.server)


def dial(
    server: ServerURL,
    options: ConnectOptions,
    credentials: Credentials,
    deadline: Deadline,
    watch: Callable[[socket.socket], None],
    *,
    require_tls: bool = False,
) -> Link:
    """Connect to one server. Blocks until the deadline at most (name lookup is the system's).

    Every address of the name is tried, the whole handshake included; ``watch`` gets every socket
    before it is used. With a proxy its addresses are tried. ``require_tls``: a link before this one
    had TLS, so this one must. Raises ConnectError, AuthorizationError, TLSRequiredError,
    ProtocolError or OSError; no descriptor is left open then.
    """
    proxy = options._proxy_to(server.host)
    ways = _ways(server, proxy)
    random.shuffle(ways)
    last: Exception | None = None
    for tried, (target, (family, kind, protocol, _, address)) in enumerate(ways):
        # A first address that is dead, or silent, must leave time for the others.
        share = Deadline(deadline.within(60.0) / (len(ways) - tried))
        if share.expired:
            break
        sock: socket.socket = original("socket", "socket")(family, kind, protocol)
        try:
            watch(sock)
            sock.settimeout(share.within(60.0))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire = Wire(sock, share, server)
            if proxy is not None:
                wire.pass_proxy(proxy, target)
            link = _shake_hands(wire, server, options, credentials, require_tls)
            # Through a proxy, what is local to the server is not local to this machine.
            link.is_near = proxy is None and _is_near(sock)
            link.peer = (str(address[0]), int(address[1]))
            return link
        except (AuthorizationError, TLSRequiredError, ConfigError):
            sock.close()
            raise  # another address of the same server would say the same
        except (OSError, Error) as error:
            sock.close()
            last = error
        except BaseException:
            sock.close()
            raise
    if isinstance(last, Error):
        raise last
    reason = getattr(last, "strerror", None) or str(last) if last else "no time left"
    through = "" if proxy is None else f" through the proxy {proxy.netloc}"
    raise ConnectError(f"cannot reach {server.netloc}{through}: {reason}") from last


def _ways(server: ServerURL, proxy: ProxyURL | None) -> list[tuple[str, _Address]]:
    """Return the addresses to connect to, each with the host that a proxy there connects to."""
    if proxy is None:
        return [(server.host, address) for address in _look_up(server.host, server.port)]
    targets = [server.host]
    if not proxy.finds_servers:
        targets = [str(found[4][0]) for found in _look_up(server.host, server.port)]
    addresses = _look_up(proxy.host, proxy.port)
    return [(target, address) for target in targets for address in addresses]


def _look_up(host: str, port: int) -> list[_Address]:
    look_up = original("socket", "getaddrinfo")
    try:
        found: list[_Address] = look_up(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        netloc = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise ConnectError(
            f"cannot find {netloc}: {error.strerror or error}; check the name and the DNS"
        ) from error
    return found


def _shake_hands(
    wire: Wire,
    server: ServerURL,
    options: ConnectOptions,
    credentials: Credentials,
    require_tls: bool,
) -> Link:
    try:
        info, hearsay = _greet(wire, server, options, require_tls)
        if wire.websocket is not None:  # before CONNECT, which may be long
            wire.websocket.hold_to(info.max_payload)
        # Secrets are read and sent only from here on: behind TLS where TLS is required.
        fields = credentials.resolve(info.nonce, server=server)
        hello = connect_payload(
            auth=fields, name=options.name, echo=options.echo, tls_required=wire.tls
        )
        wire.step = Step.LOGIN
        sent = time.monotonic()
        wire.send(hello + b"PING\r\n")
        info = _await_pong(wire, info, server, len(hello))
        round_trip = time.monotonic() - sent
        info = _await_account(wire, info)
    except OSError as error:
        if not is_tls_error(error):
            raise
        raise _tls_trouble(error, server, options) from error
    sock = wire.sock
    sock.settimeout(None)
    # The loops in C wait inside of recv(); a socket that gevent has patched would not let them.
    os.set_blocking(sock.fileno(), True)
    if info.connect_urls:
        hearsay = ()
    if wire.websocket is not None:
        wire.websocket.hold_to(info.max_payload)
    passes = traced(wire.filter, options.name or server.netloc)
    return Link(
        server, sock, info, wire.rest(), passes, wire.tls, round_trip, hearsay, wire.websocket
    )


def _greet(
    wire: Wire, server: ServerURL, options: ConnectOptions, require_tls: bool
) -> tuple[ServerInfo, tuple[str, ...]]:
    """Read INFO and start TLS, in the order that this server and these options want.

    Returns the INFO, and the servers that it named before there was TLS: an attacker on the network
    path could have written those. Servers from 2.12 on repeat them behind TLS, older ones do not.
    """
    name = options.tls_hostname or server.hostname
    asked = bool(options.tls) or server.requires_tls or require_tls
    if options.tls_handshake_first or (server.is_websocket and asked):
        if wire.rest():  # behind the answer of a proxy; a server with TLS waits for our first bytes
            raise ConnectError(f"TLS with {server.netloc} failed: {_BEGINS_IN_PLAIN}")
        wire.start_tls(options.tls, name)
    if server.is_websocket:
        path = options.ws_path or server.path or "/"
        wire.start_websocket(path, options._make_ws_headers(), deflate=options.ws_compression)
    if wire.tls or server.is_websocket:
        # INFO describes the TLS of the server's other port.
        return _read_info(wire, server), ()
    info = _read_info(wire, server)
    if asked and not (info.tls_required or info.tls_available):
        why = (
            "and the link before this one had it"
            if require_tls
            else "and this connection requires it"
        )
        raise TLSRequiredError(
            f"{server.netloc} offers no TLS, {why}: nothing was sent; configure TLS on the "
            "server, or drop tls:// and the tls option and connect anew"
        )
    if asked or info.tls_required:
        wire.start_tls(options.tls, name)
        return dataclasses.replace(info, connect_urls=()), info.connect_urls
    return info, ()


def _tls_trouble(error: ssl.SSLError, server: ServerURL, options: ConnectOptions) -> ConnectError:
    import ssl

    text = str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = f"the certificate was not accepted: {error.verify_message}"
    elif "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text:
        hint = f"the server refused us, it may want a client certificate: {error.reason}"
    elif "BAD_CERTIFICATE" in text or "UNKNOWN_CA" in text:
        hint = f"the server did not accept the client certificate: {error.reason}"
    elif "WRONG_VERSION_NUMBER" in text and server.is_websocket:
        hint = "this port has no TLS; use ws:// if that is meant"
    elif "WRONG_VERSION_NUMBER" in text and options.tls_handshake_first:
        hint = _BEGINS_IN_PLAIN
    else:
        hint = error.reason or text
    return ConnectError(f"TLS with {server.netloc} failed: {hint}")


def _is_near(sock: socket.socket) -> bool:
    address = ipaddress.ip_address(str(sock.getpeername()[0]).partition("%")[0])
    return address.is_loopback or address.is_link_local


def _read_info(wire: Wire, server: ServerURL) -> ServerInfo:
    line = wire.line()
    if line.startswith(b"-ERR"):
        raise _refusal(line, server)
    if not line.startswith(b"INFO"):
        raise ProtocolError(f"{server.netloc} does not speak NATS: it did not send INFO first")
    return ServerInfo.parse(line[4:].strip())


def _await_account(wire: Wire, info: ServerInfo) -> ServerInfo:
    """From 2.12 on the server sends one more INFO right behind the first PONG, with the limits of
    the account (``connect_info``): without them the first large message would cut the link. The
    line stays where it is, for the reader."""
    if info.api_lvl < _ACCOUNT_INFO or info.connect_info:
        return info
    if wire.has_line(b"INFO", _ACCOUNT_WAIT):
        return ServerInfo.parse(wire.peek_line()[4:].strip())
    return info


def _await_pong(wire: Wire, info: ServerInfo, server: ServerURL, hello: int) -> ServerInfo:
    while True:
        line = wire.line()
        if line == b"PONG":
            return info
        if line.startswith(b"INFO"):
            info = ServerInfo.parse(line[4:].strip())
        elif line.startswith(b"-ERR"):
            if b"maximum control line" in line.lower():
                raise ConnectError(
                    f"{server.netloc} takes no CONNECT line of "
                    f"{counted(hello, 'byte')}: raise max_control_line on the server, or make the "
                    "credentials shorter"
                )
            raise _refusal(line, server)
        elif line not in (b"PING", b"+OK"):
            raise ProtocolError(f"{server.netloc} sent an unexpected line during the handshake")


def _refusal(line: bytes, server: ServerURL) -> Exception:
    error = ServerErrorInfo.parse(line).error
    if isinstance(error, AuthorizationError):
        return AuthorizationError(f"{server.netloc} refused the credentials: {error}")
    return ConnectError(f"{server.netloc} refused the connection: {error}")
