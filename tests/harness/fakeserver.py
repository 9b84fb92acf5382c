"""A NATS server that does exactly what a test's script says, on a thread."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

PATIENCE = 20.0

INFO: dict[str, Any] = {
    "server_id": "FAKE",
    "server_name": "fake",
    "version": "2.15.1",
    "proto": 1,
    "host": "127.0.0.1",
    "headers": True,
    "max_payload": 1048576,
    "client_id": 1,
}


class Peer:
    """One client as the script sees it. What the client sent is kept in ``received``."""

    def __init__(self, link: socket.socket, info: dict[str, Any]) -> None:
        link.settimeout(PATIENCE)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._link = link
        self._info = info
        self._unread = b""
        self._released = threading.Event()
        self.received = b""

    # --- sending -----------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send these bytes, be they half a line."""
        self._link.sendall(data)

    def send_info(self, **changes: Any) -> None:
        """Send INFO, with these fields changed; a field given as None is left out."""
        fields = {k: v for k, v in {**self._info, **changes}.items() if v is not None}
        self.send(b"INFO " + json.dumps(fields).encode() + b"\r\n")

    def send_message(
        self, subject: bytes, sid: bytes, payload: bytes = b"", reply: bytes = b""
    ) -> None:
        words = b" ".join(word for word in (subject, sid, reply) if word)
        self.send(b"MSG %s %d\r\n%s\r\n" % (words, len(payload), payload))

    # --- receiving ---------------------------------------------------------------------------

    def read_line(self) -> bytes:
        """Return the client's next line without CRLF. Fails when the client ends before."""
        while b"\r\n" not in self._unread:
            self._receive()
        line, _, self._unread = self._unread.partition(b"\r\n")
        return line

    def read_exactly(self, count: int) -> bytes:
        while len(self._unread) < count:
            self._receive()
        found, self._unread = self._unread[:count], self._unread[count:]
        return found

    def expect(self, operation: bytes) -> bytes:
        """Return the next line, which must begin with this word (``b"SUB"``)."""
        line = self.read_line()
        assert line.split(b" ", 1)[0] == operation, f"wanted {operation!r}, received {line!r}"
        return line

    def expect_publish(self) -> tuple[bytes, bytes]:
        """Return the next line, which must be PUB or HPUB, and its header and payload."""
        line = self.read_line()
        assert line.startswith((b"PUB ", b"HPUB ")), f"wanted PUB, received {line!r}"
        return line, self.read_exactly(int(line.split()[-1]) + 2)[:-2]

    def handshake(self, **changes: Any) -> dict[str, Any]:
        """Do what a server does with a new client, up to the first PONG; return CONNECT's fields.

        ``changes`` are for INFO.
        """
        self.send_info(**changes)
        options: dict[str, Any] = json.loads(self.expect(b"CONNECT").split(b" ", 1)[1])
        self.expect(b"PING")
        self.send(b"PONG\r\n")
        return options

    def serve(self) -> None:
        """Answer every PING, skip all else, until the client ends the connection."""
        with contextlib.suppress(ClientGone):
            while True:
                line = self.read_line()
                if line == b"PING":
                    self.send(b"PONG\r\n")
                elif line.startswith((b"PUB ", b"HPUB ")):
                    self.read_exactly(int(line.split()[-1]) + 2)

    def wait_for_end(self) -> None:
        """Read and answer nothing until the client ends the connection."""
        with contextlib.suppress(ClientGone):
            while True:
                self._receive()

    def hold(self) -> None:
        """Read and answer nothing, not even the end, until the server stops."""
        self._released.wait()

    # --- ending ------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection in order (FIN)."""
        self._link.close()

    def half_close(self) -> None:
        """Say that nothing more will come, and go on listening."""
        self._link.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """End the connection the hard way (RST)."""
        self._link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._link.close()

    def wake(self) -> None:
        """Let the script's thread see the end, from another thread."""
        self._released.set()
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)

    def _receive(self) -> None:
        try:
            piece = self._link.recv(65536)
        except TimeoutError:
            raise AssertionError(
                f"the client sent nothing for {PATIENCE} s after {self.received[-200:]!r}"
            ) from None
        except OSError:
            piece = b""
        if not piece:
            raise ClientGone(f"the client ended after {self.received[-200:]!r}")
        self.received += piece
        self._unread += piece


class ClientGone(AssertionError):
    """The client ended the connection while the script wanted more from it."""


Script = Callable[[Peer], None]


class FakeServer:
    """Listens on 127.0.0.1 and plays one script for each connection.

    ``with FakeServer(first, second) as fake: jetsync.connect(fake.url)``

    The first connection gets the first script and so on; the last script serves all further
    ones. A connection ends with its script. What a script asserts wrongly fails the test at the
    end of the ``with`` block, unless the block itself failed; the server's own end does not count.
    """

    def __init__(self, *scripts: Script, info: dict[str, Any] | None = None) -> None:
        assert scripts, "a fake server needs a script"
        self._scripts = scripts
        self._info = {**INFO, **(info or {})}
        self._playing: list[threading.Thread] = []
        self.errors: list[BaseException] = []
        self._ending = False
        self.peers: list[Peer] = []

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> FakeServer:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._info["port"] = self.port
        self._accepting = self._thread(self._accept)
        return self

    def stop(self) -> None:
        """End every connection, wait for the scripts, and raise what the first of them raised."""
        if self._ending:
            return
        self._ending = True
        socket.create_connection(("127.0.0.1", self.port), PATIENCE).close()  # wakes accept()
        self._accepting.join(PATIENCE)
        self._listener.close()
        for peer in self.peers:
            peer.wake()
        for thread in self._playing:
            thread.join(2 * PATIENCE)
            assert not thread.is_alive(), "a script does not end"
        if self.errors:
            raise self.errors[0]

    def __enter__(self) -> FakeServer:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.stop()
        except BaseException:
            if kind is None:  # else the block's own failure says more
                raise

    def _thread(self, target: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, name=f"fake-{self.port}", daemon=True)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            link, _ = self._listener.accept()
            if self._ending:
                link.close()
                return
            peer = Peer(link, self._info)
            script = self._scripts[min(len(self.peers), len(self._scripts) - 1)]
            self.peers.append(peer)
            self._playing.append(self._thread(self._play, script, peer))

    def _play(self, script: Script, peer: Peer) -> None:
        try:
            script(peer)
        except BaseException as error:
            if not (self._ending and isinstance(error, (ClientGone, OSError))):
                self.errors.append(error)
        finally:
            peer.close()
