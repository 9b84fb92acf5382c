"""A TCP proxy on 127.0.0.1 that produces network faults."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from urllib.parse import urlsplit

from jetsync._threads import start_thread

__all__ = ["Proxy"]

CHUNK = 64 * 1024
HOLD_AT_MOST = 256 * 1024
COMMAND_WITHIN = 5.0


class Pipe:
    """One direction of one connection: what was read from ``source`` and goes to ``sink``."""

    def __init__(self, source: socket.socket, sink: socket.socket, *, to_client: bool) -> None:
        self.source = source
        self.sink = sink
        self.to_client = to_client
        self.held: deque[tuple[float, bytes]] = deque()
        self.at_end: bool = False  # the source has ended
        self.is_shut: bool = False  # and the sink was shut down
        self.busy_until: float = 0.0
        self.let_through: int | None = None  # how many more bytes, before they are swallowed

    def wants_input(self) -> bool:
        return not self.at_end and sum(len(data) for _, data in self.held) < HOLD_AT_MOST

    def take(self, delay: float, rate: float | None) -> int:
        """Read once; return the number of bytes that will be passed on. ``rate``: bytes a second
        that the link holds; what comes faster arrives later."""
        data = self.source.recv(CHUNK if rate is None else max(1, min(CHUNK, int(rate / 20))))
        if not data:
            self.at_end = True
            return 0
        if self.let_through is not None:
            data = data[: self.let_through]
            self.let_through -= len(data)
        if data:
            now = time.monotonic()
            if rate is not None:
                self.busy_until = now = max(now, self.busy_until) + len(data) / rate
            self.held.append((now + delay, data))
        return len(data)

    def give(self, at_once: int) -> None:
        """Write the bytes that are due, at most ``at_once`` at a time, and pass on the end."""
        while self.held and self.held[0][0] <= time.monotonic():
            due, data = self.held.popleft()
            sent = 0
            try:
                while sent < len(data):
                    sent += self.sink.send(data[sent : sent + at_once])
            except BlockingIOError:
                self.held.appendleft((due, data[sent:]))
                return
        if self.at_end and not self.held and not self.is_shut:
            self.is_shut = True
            with contextlib.suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)


class Proxy:
    """A proxy between clients and one server; a context manager starts and stops it.

    ``with Proxy(server.url) as proxy: jetsync.connect(proxy.url)``

    It passes everything on until told otherwise. Faults hold for present and later connections
    and take effect before the call returns; ``heal()`` ends them all. One thread does the work.
    """

    def __init__(self, target: str) -> None:
        where = urlsplit(target)
        self._scheme = where.scheme if where.scheme in ("ws", "wss") else "nats"
        usual = {"nats": 4222, "ws": 80, "wss": 443}[self._scheme]
        self._target = (where.hostname or "127.0.0.1", where.port or usual)
        self._port = 0
        self._links: list[tuple[Pipe, Pipe]] = []
        self._commands: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._thread: threading.Thread | None = None
        self._blackholed = False
        self._delay = 0.0
        self._rate: float | None = None
        self._at_once = CHUNK
        self._let_through: int | None = None
        self._spoiling = False
        self.accepted: int = 0
        self.bytes_to_client: int = 0
        self.bytes_to_server: int = 0

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._port}"

    @property
    def connections(self) -> int:
        """How many connections it holds at this moment."""
        return len(self._links)

    def start(self) -> Proxy:
        """Listen, on the same port as last time."""
        if self._thread is None:
            self._listener = socket.create_server(("127.0.0.1", self._port), backlog=128)
            self._listener.setblocking(False)
            self._port = self._listener.getsockname()[1]
            self._bell, self._ear = socket.socketpair()
            self._thread = start_thread("proxy", self._run)
        return self

    def stop(self) -> None:
        """Refuse and cut everything. Faults stay set for the next start."""
        if self._thread is not None:
            self._do(self._end)
            self._thread.join(COMMAND_WITHIN)
            if self._thread.is_alive():
                raise RuntimeError("the thread of the proxy does not end")
            self._thread = None
            for each in (self._bell, self._ear):
                each.close()

    def restart(self) -> None:
        """Cut everything and listen again on the same port."""
        self.stop()
        self.start()

    def __enter__(self) -> Proxy:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- faults ------------------------------------------------------------------------------

    def cut(self) -> None:
        """Reset (RST) every connection now, towards both sides."""
        self._do(self._cut)

    def half_close(self, *, towards_client: bool = True) -> None:
        """End one direction (FIN) of every connection; the other one stays open."""
        self._do(lambda: self._half_close(towards_client))

    def blackhole(self) -> None:
        """Pass nothing on, in no direction. Connections stay open and new ones are taken."""
        self._do(lambda: setattr(self, "_blackholed", True))

    def unblackhole(self) -> None:
        """Pass on again, first what was held: TCP would have repeated it."""
        self._do(lambda: setattr(self, "_blackholed", False))

    def delay(self, seconds: float) -> None:
        """Let everything arrive later by so much, in both directions."""
        self._do(lambda: setattr(self, "_delay", seconds))

    def bandwidth(self, bytes_per_second: float | None) -> None:
        """Let so many bytes a second through, in each direction of each connection; None: all."""
        self._do(lambda: setattr(self, "_rate", bytes_per_second))

    def one_byte_writes(self, on: bool = True) -> None:
        """Write single bytes, in both directions."""
        self._do(lambda: setattr(self, "_at_once", 1 if on else CHUNK))

    def swallow_after(self, count: int | None) -> None:
        """Throw away what the server sends, after ``count`` more bytes on each connection.

        None ends it.
        """
        self._do(lambda: self._swallow_after(count))

    def spoil(self) -> None:
        """Flip a bit in the next thing the server sends, once."""
        self._do(lambda: setattr(self, "_spoiling", True))

    def heal(self) -> None:
        """End every fault."""
        self.one_byte_writes(False)
        self.delay(0)
        self.bandwidth(None)
        self.swallow_after(None)
        self.unblackhole()

    # --- inside; everything below runs on the proxy's thread, as do the commands -------------

    def _do(self, command: Callable[[], None]) -> None:
        if self._thread is None:
            command()
            return
        done = threading.Event()
        self._commands.append((command, done))
        self._bell.send(b"!")
        if not done.wait(COMMAND_WITHIN):
            raise RuntimeError("the thread of the proxy is stuck")

    def _run(self) -> None:
        while self._listener.fileno() >= 0:
            ready = self._poll()
            if self._ear.fileno() in ready:
                self._ear.recv(CHUNK)
                while self._commands:
                    command, done = self._commands.popleft()
                    command()
                    done.set()
                continue  # other descriptors may be open now
            if self._listener.fileno() in ready:
                self._accept()
            if not self._blackholed:
                for link in list(self._links):
                    self._move(link, ready)

    def _poll(self) -> set[int]:
        """Wait for something to do; return the descriptors that can be read."""
        poll = select.poll()
        poll.register(self._ear, select.POLLIN)
        poll.register(self._listener, select.POLLIN)
        now = time.monotonic()
        due: list[float] = []
        interest: dict[int, int] = {}
        for pipe in (pipe for link in self._links for pipe in link if not self._blackholed):
            if pipe.wants_input():
                source = pipe.source.fileno()
                interest[source] = interest.get(source, 0) | select.POLLIN
            if pipe.held and pipe.held[0][0] <= now:
                sink = pipe.sink.fileno()
                interest[sink] = interest.get(sink, 0) | select.POLLOUT
            elif pipe.held:
                due.append(pipe.held[0][0])
        for descriptor, events in interest.items():
            poll.register(descriptor, events)
        patience = (min(due) - now) * 1000 if due else None
        readable = select.POLLIN | select.POLLHUP | select.POLLERR
        return {found for found, events in poll.poll(patience) if events & readable}

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:  # gone again
            return
        self.accepted += 1
        try:
            server = socket.create_connection(self._target, COMMAND_WITHIN)
        except OSError:
            _reset(client)
            return
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = (Pipe(server, client, to_client=True), Pipe(client, server, to_client=False))
        link[0].let_through = self._let_through
        self._links.append(link)

    def _move(self, link: tuple[Pipe, Pipe], ready: set[int]) -> None:
        try:
            for pipe in link:
                if pipe.source.fileno() in ready and pipe.wants_input():
                    count = pipe.take(self._delay, self._rate)
                    if pipe.to_client:
                        self.bytes_to_client += count
                        if self._spoiling and count:
                            self._spoiling = False
                            due, data = pipe.held[-1]
                            pipe.held[-1] = due, data[:-1] + bytes([data[-1] ^ 1])
                    else:
                        self.bytes_to_server += count
                pipe.give(self._at_once)
        except BlockingIOError:
            return
        except OSError:
            self._drop(link)
            return
        if all(pipe.is_shut for pipe in link):
            for pipe in link:
                pipe.source.close()
            self._links.remove(link)

    def _drop(self, link: tuple[Pipe, Pipe]) -> None:
        for pipe in link:
            _reset(pipe.source)
        self._links.remove(link)

    def _cut(self) -> None:
        for link in list(self._links):
            self._drop(link)

    def _half_close(self, towards_client: bool) -> None:
        for link in self._links:
            for pipe in link:
                if pipe.to_client == towards_client:
                    pipe.at_end = pipe.is_shut = True
                    pipe.held.clear()
                    with contextlib.suppress(OSError):
                        pipe.sink.shutdown(socket.SHUT_WR)

    def _swallow_after(self, count: int | None) -> None:
        self._let_through = count
        for to_client, _ in self._links:
            to_client.let_through = count

    def _end(self) -> None:
        self._cut()
        self._listener.close()


def _reset(end: socket.socket) -> None:
    """Close a socket the hard way: the other side gets RST instead of an orderly end."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()
