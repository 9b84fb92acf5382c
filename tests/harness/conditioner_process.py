"""The program behind ``tests.harness.conditioner``: TCP links with the shape of real ones.

It runs in a process of its own, so that carrying bytes takes no time from the interpreter under
test. Commands come as one line of JSON each on stdin and are answered the same way on stdout; the
program ends when stdin does. It imports the standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import socket
import struct
import time
from collections import deque
from typing import Any

MOST_IN_ONE_READ = 256 * 1024
LEAST_IN_ONE_READ = 1460
PIECE_TAKES = 0.005  # seconds of the line that one read may occupy
LINE_QUEUE = 0.05  # seconds of bytes that wait for the line; more are left with the sender
HELD_AT_MOST = 32 * 2**20  # bytes under way in one direction of one connection
SLOW_LINE = 10_000_000  # below this many bytes a second the kernel must not hide a long queue
KERNEL_BUFFER = 64 * 1024
CONNECT_WITHIN = 5.0


class Way:
    """One direction of one link; all its connections share the line."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.latency = 0.0
        self.jitter = 0.0
        self.bandwidth = 0.0  # bytes a second; 0 is without limit
        self.stalled_until = 0.0
        self.line_free_at = 0.0
        self.carried = 0

    def room(self, now: float) -> int:
        """How many bytes may be read now; 0 while stalled or while the line's queue is full."""
        if now < self.stalled_until:
            return 0
        if not self.bandwidth:
            return MOST_IN_ONE_READ
        if self.line_free_at - now > LINE_QUEUE:
            return 0
        piece = int(self.bandwidth * PIECE_TAKES)
        return max(LEAST_IN_ONE_READ, min(MOST_IN_ONE_READ, piece))

    def reads_again_at(self) -> float:
        """When ``room`` may become true by itself."""
        return max(self.stalled_until, self.line_free_at - LINE_QUEUE)

    def arrival(self, count: int, now: float) -> float:
        """When the last of ``count`` bytes, sent now, is at the other end."""
        self.carried += count
        if self.bandwidth:
            self.line_free_at = max(now, self.line_free_at) + count / self.bandwidth
            now = self.line_free_at
        return now + self.latency + (self.rng.uniform(0, self.jitter) if self.jitter else 0.0)


class Flow:
    """One direction of one connection."""

    def __init__(self, way: Way, source: socket.socket, sink: socket.socket) -> None:
        self.way = way
        self.source = source
        self.sink = sink
        self.held: deque[tuple[float, memoryview]] = deque()
        self.held_bytes = 0
        self.last_due = 0.0
        self.is_blocked = False  # the sink takes no more for now
        self.at_end = False
        self.is_shut = False

    def take(self, now: float) -> None:
        room = self.way.room(now)
        if not room or self.held_bytes >= HELD_AT_MOST:
            return
        data = self.source.recv(room)
        if not data:
            self.at_end = True
            self._hold(b"", max(self.last_due, now + self.way.latency))
            return
        self._hold(data, self.way.arrival(len(data), now))

    def _hold(self, data: bytes, due: float) -> None:
        # TCP keeps the order, so a late piece delays all that follow.
        self.last_due = max(self.last_due, due)
        self.held.append((self.last_due, memoryview(data)))
        self.held_bytes += len(data)

    def give(self, now: float) -> None:
        """Hand over what is due."""
        if now < self.way.stalled_until:
            return
        while self.held and self.held[0][0] <= now:
            due, data = self.held.popleft()
            if not data:
                self.is_shut = True
                with contextlib.suppress(OSError):
                    self.sink.shutdown(socket.SHUT_WR)
                return
            try:
                sent = self.sink.send(data)
            except BlockingIOError:
                sent = 0
            self.held_bytes -= sent
            if sent < len(data):
                self.held.appendleft((due, data[sent:]))
                self.is_blocked = True
                return

    def next_due(self) -> float | None:
        if not self.held or self.is_blocked:
            return None
        return max(self.held[0][0], self.way.stalled_until)


class Link:
    """A listener, its target, and the connections between them."""

    def __init__(self, target: tuple[str, int], port: int, seed: int) -> None:
        self.target = target
        rng = random.Random(seed)
        self.ways = {"to_client": Way(rng), "to_server": Way(rng)}
        self.connections: list[tuple[Flow, Flow]] = []
        self.refuses = False
        self.accepted = 0
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(256)
        self.listener.setblocking(False)

    def is_slow(self) -> bool:
        return any(0 < way.bandwidth < SLOW_LINE for way in self.ways.values())

    def accept(self) -> tuple[Flow, Flow] | None:
        if self.is_slow():
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BUFFER)
        try:
            client, _ = self.listener.accept()
        except OSError:  # gone again
            return None
        if self.refuses:
            reset(client)
            return None
        server = socket.socket()
        if self.is_slow():
            for end in (client, server):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BUFFER)
        try:
            server.settimeout(CONNECT_WITHIN)
            server.connect(self.target)
        except OSError:
            server.close()
            reset(client)
            return None
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.accepted += 1
        pair = (
            Flow(self.ways["to_client"], server, client),
            Flow(self.ways["to_server"], client, server),
        )
        self.connections.append(pair)
        return pair


def reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


class Process:
    """The loop: one epoll over all links, and a clock for what is under way."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        # By descriptor: the flow that reads from it and the one that writes to it.
        self.flows: dict[int, tuple[Flow, Flow]] = {}
        self.pairs: dict[Flow, tuple[Link, tuple[Flow, Flow]]] = {}
        self.listeners: dict[int, Link] = {}
        self.interest: dict[int, int] = {}
        self.epoll = select.epoll()
        self.commands = b""
        os.set_blocking(0, False)
        self.epoll.register(0, select.EPOLLIN)

    # --- commands ---------------------------------------------------------------------------

    def read_commands(self) -> None:
        data = os.read(0, 65536)
        if not data:
            raise SystemExit(0)
        *lines, self.commands = (self.commands + data).split(b"\n")
        for line in lines:
            command = json.loads(line)
            answer = getattr(self, "do_" + command.pop("do"))(**command)
            print(json.dumps(answer or {}), flush=True)

    def do_open(self, host: str, port: int, listen: int, seed: int) -> dict[str, int]:
        link = Link((host, port), listen, seed)
        self.links.append(link)
        self.listeners[link.listener.fileno()] = link
        self.epoll.register(link.listener, select.EPOLLIN)
        return {"link": len(self.links) - 1, "port": link.listener.getsockname()[1]}

    def do_shape(self, link: int, way: str, **values: float) -> None:
        for name, value in values.items():
            setattr(self.links[link].ways[way], name, value)

    def do_stall(self, link: int, way: str, seconds: float) -> None:
        self.links[link].ways[way].stalled_until = time.monotonic() + seconds

    def do_refuse(self, link: int, on: bool) -> None:
        self.links[link].refuses = on

    def do_cut(self, link: int) -> None:
        for pair in list(self.links[link].connections):
            self.drop(self.links[link], pair)

    def do_state(self, link: int) -> dict[str, Any]:
        one = self.links[link]
        return {
            "connections": len(one.connections),
            "accepted": one.accepted,
            **{name: way.carried for name, way in one.ways.items()},
            "under_way": sum(flow.held_bytes for pair in one.connections for flow in pair),
        }

    # --- bytes ------------------------------------------------------------------------------

    def run(self) -> None:
        while True:
            now = time.monotonic()
            timeout = self.settle(now)
            # select() wakes with microseconds, an epoll of Python with whole milliseconds.
            if not select.select([self.epoll], [], [], timeout)[0]:
                continue
            now = time.monotonic()
            for descriptor, events in self.epoll.poll(0):
                if descriptor == 0:
                    self.read_commands()
                elif descriptor in self.listeners:
                    self.accept(self.listeners[descriptor])
                elif descriptor in self.flows:
                    self.ready(descriptor, events, now)

    def accept(self, link: Link) -> None:
        pair = link.accept()
        if pair is None:
            return
        to_client, to_server = pair
        self.flows[to_client.source.fileno()] = (to_client, to_server)
        self.flows[to_server.source.fileno()] = (to_server, to_client)
        for flow in pair:
            self.pairs[flow] = (link, pair)
            self.interest[flow.source.fileno()] = 0

    def ready(self, descriptor: int, events: int, now: float) -> None:
        reads, writes = self.flows[descriptor]
        link, pair = self.pairs[reads]
        try:
            if events & select.EPOLLOUT:
                writes.is_blocked = False
            if self.interest[descriptor] & select.EPOLLIN:
                reads.take(now)
                reads.give(now)
        except BlockingIOError:
            return
        except OSError:
            self.drop(link, pair)

    def settle(self, now: float) -> float | None:
        """Hand over what is due, set what to wait for; return for how long to wait."""
        wake: list[float] = []
        for flow, (link, pair) in list(self.pairs.items()):
            if flow not in self.pairs:  # dropped together with its other direction
                continue
            try:
                flow.give(now)
            except OSError:
                self.drop(link, pair)
                continue
            if all(each.is_shut for each in pair):
                self.drop(link, pair)
                continue
            due = flow.next_due()
            if due is not None:
                wake.append(due)
            if not flow.at_end and not flow.way.room(now):
                wake.append(flow.way.reads_again_at())
        for descriptor, (reads, writes) in self.flows.items():
            self.watch(descriptor, self.wanted(reads, writes, now))
        return max(0.0, min(wake) - now) if wake else None

    @staticmethod
    def wanted(reads: Flow, writes: Flow, now: float) -> int:
        wanted = 0
        if not reads.at_end and reads.held_bytes < HELD_AT_MOST and reads.way.room(now):
            wanted |= select.EPOLLIN
        if writes.is_blocked:
            wanted |= select.EPOLLOUT
        return wanted

    def watch(self, descriptor: int, wanted: int) -> None:
        before = self.interest[descriptor]
        if before == wanted:
            return
        self.interest[descriptor] = wanted
        # What is waited for in no way is not registered: a hang-up is reported even to an empty
        # interest, again and again.
        if not before:
            self.epoll.register(descriptor, wanted)
        elif not wanted:
            self.epoll.unregister(descriptor)
        else:
            self.epoll.modify(descriptor, wanted)

    def drop(self, link: Link, pair: tuple[Flow, Flow]) -> None:
        if pair not in link.connections:
            return
        link.connections.remove(pair)
        orderly = all(flow.is_shut for flow in pair)
        for flow in pair:
            descriptor = flow.source.fileno()
            self.watch(descriptor, 0)
            del self.flows[descriptor], self.interest[descriptor], self.pairs[flow]
        for flow in pair:
            if orderly:
                flow.source.close()
            else:
                reset(flow.source)


if __name__ == "__main__":
    Process().run()
