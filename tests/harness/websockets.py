"""WebSockets for tests: listeners of the real nats-server, and the server's end of a raw one."""

from __future__ import annotations

import base64
import hashlib
import socket
import struct
import zlib
from pathlib import Path

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def listener(port: int, *, tls: tuple[Path, Path] | None = None, compression: bool = False) -> str:
    """Return the block of a nats-server's configuration that opens a WebSocket port."""
    lines = ["websocket {", 'host: "127.0.0.1"', f"port: {port}", f"compression: {compression}"]
    if tls is None:
        lines.append("no_tls: true")
    else:
        lines.append(f'tls {{ cert_file: "{tls[0]}", key_file: "{tls[1]}" }}')
    return "\n".join([*lines, "}"]).replace("True", "true").replace("False", "false") + "\n"


def frame(payload: bytes = b"", op: int = BINARY, *, final: bool = True, bits: int = 0) -> bytes:
    """Return a frame as a server sends it. ``bits``: reserved bits of its first byte."""
    head = bytes([(0x80 if final else 0) | bits | op])
    if len(payload) < 126:
        return head + bytes([len(payload)]) + payload
    if len(payload) < 65536:
        return head + b"\x7e" + struct.pack(">H", len(payload)) + payload
    return head + b"\x7f" + struct.pack(">Q", len(payload)) + payload


def accept(key: bytes) -> bytes:
    """Return what answers the key of a client."""
    return base64.b64encode(hashlib.sha1(key + GUID).digest())


def answer(request: bytes, *more: bytes) -> bytes:
    """Return what a server answers to the request of an upgrade; ``more`` are further headers."""
    key = request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
    return b"\r\n".join(
        [
            b"HTTP/1.1 101 Switching Protocols",
            b"Upgrade: websocket",
            b"Connection: Upgrade",
            b"Sec-WebSocket-Accept: " + accept(key),
            *more,
            b"",
            b"",
        ]
    )


class RawPeer:
    """The server's end of one WebSocket: frames as the test wants them."""

    def __init__(self, sock: socket.socket, *more: bytes) -> None:
        self._sock = sock
        self._bytes = b""
        sock.settimeout(10)
        while b"\r\n\r\n" not in self._bytes:
            self._receive()
        self.request, _, self._bytes = self._bytes.partition(b"\r\n\r\n")
        sock.sendall(answer(self.request, *more))

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._sock.sendall(data)

    def read_frame(self) -> tuple[int, int, bytes]:
        """Return the first byte, operation and payload of the client's next frame, which must be
        masked."""
        first, second = self._exactly(2)
        assert second & 0x80, "a client must mask its frames"
        size = second & 0x7F
        if size > 125:
            size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
        key = self._exactly(4)
        payload = self._exactly(size)
        plain = bytes(byte ^ key[at & 3] for at, byte in enumerate(payload))
        if first & 0x40:
            plain = zlib.decompressobj(-zlib.MAX_WBITS).decompress(plain + b"\0\0\xff\xff")
        return first, first & 15, plain

    def handshake(self, more: bytes = b'"headers":true') -> None:
        """Do what a nats-server does with a new client, up to its PONG. ``more`` stands in INFO."""
        self.send(frame(b'INFO {"server_id":"F","max_payload":1048576,%b}\r\n' % more))
        said = b""
        while not said.endswith(b"PING\r\n"):
            said += self.read_frame()[2]
        assert said.startswith(b"CONNECT ")
        self.send(frame(b"PONG\r\n"))

    def handshake_answering(self, ping: bytes) -> None:
        """The same with a ping that was sent before: it is answered with what the client says."""
        self.send(frame(b'INFO {"server_id":"F","max_payload":1048576,"headers":true}\r\n'))
        assert self.read_frame()[1:] == (PONG, ping)
        assert self.read_frame()[2].startswith(b"CONNECT ")
        self.send(frame(b"PONG\r\n"))

    def at_end(self) -> bool:
        """Read what still comes, and return once the client has ended the connection."""
        try:
            while self._sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True

    def _exactly(self, count: int) -> bytes:
        while len(self._bytes) < count:
            self._receive()
        found, self._bytes = self._bytes[:count], self._bytes[count:]
        return found

    def _receive(self) -> None:
        data = self._sock.recv(65536)
        assert data, "the client has ended the connection"
        self._bytes += data
