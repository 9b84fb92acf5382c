"""A wire that a test reads and rewrites, frame by frame, between clients and a real server."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.harness.links import straight

PAYLOADS = {b"PUB": 1, b"HPUB": 2, b"MSG": 1, b"HMSG": 2}
"""Verbs that a payload follows, with how many sizes end their line."""
FIRST = {b"PUB": 1, b"HPUB": 1, b"MSG": 2, b"HMSG": 2}
"""And how many words come before the reply subject."""


@dataclass(frozen=True)
class Frame:
    """One line, with the header and payload that follow it."""

    line: bytes
    body: bytes = b""

    @property
    def raw(self) -> bytes:
        """All its bytes."""
        has_body = self.verb in PAYLOADS
        return self.line + b"\r\n" + (self.body + b"\r\n" if has_body else b"")

    @property
    def verb(self) -> bytes:
        """The word that it begins with."""
        return self.line.split(b" ", 1)[0]

    @property
    def subject(self) -> bytes:
        """Where a message goes; empty for what is none."""
        return self.line.split(b" ")[1] if self.verb in PAYLOADS else b""

    @property
    def reply(self) -> bytes:
        """Where its answer goes; empty without one."""
        words = self.line.split()[1:]
        middle = words[FIRST[self.verb] : -PAYLOADS[self.verb]] if self.verb in PAYLOADS else []
        return middle[0] if middle else b""

    def with_body(self, body: bytes) -> Frame:
        """The same message without a header, with another payload."""
        assert self.verb in (b"PUB", b"MSG")
        front, _, _ = self.line.rpartition(b" ")
        return Frame(b"%s %d" % (front, len(body)), body)


Hook = Callable[[Frame], bytes]
"""What goes on in place of a frame: ``frame.raw``, other bytes, or none."""


class Tap:
    """Takes connections, makes each its own to the server, and asks a hook about every frame.

    ``with Tap(server.url) as tap: nc = jetsync.connect(tap.url); tap.to_server = hook``
    """

    def __init__(self, target: str) -> None:
        where = urlsplit(straight(target))
        self._target = (where.hostname or "127.0.0.1", where.port or 4222)
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.to_server: Hook = lambda frame: frame.raw
        self.to_client: Hook = lambda frame: frame.raw

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Reset every connection; new ones are taken. A hook may call it."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Tap:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()
        self._listener.close()

    def _start(self, job: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=job, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._ends += [client, server]
                self._start(self._pass_on, client, server, lambda frame: self.to_server(frame))
                self._start(self._pass_on, server, client, lambda frame: self.to_client(frame))

    def _pass_on(self, source: socket.socket, sink: socket.socket, hook: Hook) -> None:
        with contextlib.suppress(OSError), source.makefile("rb") as reader:
            while line := reader.readline():
                frame = Frame(line[:-2])
                if frame.verb in PAYLOADS:
                    frame = Frame(line[:-2], reader.read(int(line.split()[-1]) + 2)[:-2])
                sink.sendall(hook(frame))
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()
