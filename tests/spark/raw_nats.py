"""Publishing bytes that no decent client would send."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

__all__ = ["publish_raw"]


def publish_raw(url: str, subject: bytes, header: bytes, data: bytes) -> None:
    """Send one HPUB with exactly these bytes, and wait until the server has taken it."""
    where = urlsplit(url)
    address = (where.hostname or "127.0.0.1", where.port or 4222)
    with socket.create_connection(address, timeout=5) as sock:
        sock.settimeout(5)
        sock.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n')
        sock.sendall(
            b"HPUB %s %d %d\r\n%s%s\r\nPING\r\n"
            % (subject, len(header), len(header) + len(data), header, data)
        )
        answer = b""
        while b"PONG\r\n" not in answer:
            piece = sock.recv(4096)
            if not piece or b"-ERR" in answer:
                raise AssertionError(f"the server refused the message: {answer!r}")
            answer += piece
