"""TLS as a filter of bytes, never as a socket.

Two threads cannot use one ``ssl.SSLSocket``: a change of the shared state by one of them raises an
error in the other. Here the sockets stay plain, the reader decrypts what it received and the
sending thread encrypts what it sends, both under one lock that is never held during socket calls.
"""

from __future__ import annotations

import ssl
from typing import Protocol

from jetsync._deadline import Deadline
from jetsync._locks import lock
from jetsync.client.tls_config import TLS, TLSConfig
from jetsync.errors import ConfigError, ConnectError

__all__ = ["TLSFilter", "make_context"]

_READ = 256 * 1024


def make_context(tls: TLS | None) -> ssl.SSLContext:
    """Return what the handshake needs. Reads files. Raises ConfigError when they are of no use."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    if not isinstance(tls, TLSConfig):
        return ssl.create_default_context()
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"TLSConfig.ca_file {str(tls.ca_file)!r} cannot be used: {error}"
        ) from error
    if tls.cert_file is not None:
        try:
            # A function, because without one OpenSSL would ask for a password on the terminal.
            context.load_cert_chain(tls.cert_file, tls.key_file, tls.key_password or (lambda: ""))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"TLSConfig.cert_file {str(tls.cert_file)!r} with its key cannot be used: {error}"
            ) from error
    return context


class SocketLike(Protocol):
    """The methods of a socket that a handshake uses."""

    def settimeout(self, seconds: float, /) -> None: ...
    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...


class TLSFilter:
    """The TLS state of one link. The reader decrypts while another thread encrypts."""

    def __init__(self, context: ssl.SSLContext, hostname: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        try:
            self._object = context.wrap_bio(
                self._incoming, self._outgoing, server_hostname=hostname
            )
        except ValueError as error:
            raise ConfigError(
                f"TLS cannot check a certificate against {hostname!r}: {error}"
            ) from None
        self._lock = lock("client/tls.py _lock")

    def handshake(self, sock: SocketLike, deadline: Deadline) -> None:
        """Agree with the server on keys, by the deadline. Raises OSError or ConnectError."""
        while True:
            try:
                self._object.do_handshake()
                wants = False
            except ssl.SSLWantReadError:
                wants = True
            finally:
                # Also when it failed: the alert tells the server why.
                if self._outgoing.pending:
                    sock.settimeout(max(deadline.within(60.0), 0.001))
                    sock.sendall(self._outgoing.read())
            if not wants:
                return
            left = deadline.within(60.0)
            if left <= 0:
                raise ConnectError("the TLS handshake was not completed in time")
            sock.settimeout(left)
            try:
                data = sock.recv(_READ)
            except TimeoutError:
                raise ConnectError("the TLS handshake was not completed in time") from None
            if not data:
                raise ConnectError("the server closed the connection during the TLS handshake")
            self._incoming.write(data)

    def decode(self, data: bytes | memoryview) -> list[bytes]:
        """Return the pieces of plain text that received bytes complete. Raises ssl.SSLError.

        The server's goodbye (close_notify) means nothing here: the end of the socket follows.
        """
        plain = []
        with self._lock:
            self._incoming.write(data)
            try:
                while piece := self._object.read(_READ):
                    plain.append(piece)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                pass
        return plain

    more = ended = False
    """See ``ByteFilter``: all that came is decoded at once, and the socket itself ends."""

    @property
    def owes(self) -> bool:
        """Whether the protocol itself has something to send, such as the answer to a key update."""
        return self._outgoing.pending > 0

    def encode(self, data: bytes | memoryview) -> bytes:
        """Return what has to be sent for ``data`` (with anything owed). Raises ssl.SSLError."""
        with self._lock:
            rest = memoryview(data)
            while rest:
                rest = rest[self._object.write(rest) :]
            return self._outgoing.read()
