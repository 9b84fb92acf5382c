"""What the tests of the compiled core share: frames, links over a socketpair, bounded waits."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from tests.harness.signals import sleeps
from tests.harness.waiting import wait_until as harness_wait_until

LONG = 30.0  # seconds after which a test gives up on what has to happen


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something is true; fail after a long time."""
    harness_wait_until(condition, timeout=LONG)


class Thread(threading.Thread):
    """A thread whose exception and result reach the test when it is joined."""

    def __init__(self, target, *args):
        super().__init__(target=target, args=args, daemon=True)
        self._work = (target, args)
        self.result = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        target, args = self._work
        try:
            self.result = target(*args)
        except BaseException as error:
            self.error = error

    @property
    def waits(self) -> bool:
        """Whether it sleeps in the system; True where that cannot be known."""
        return sleeps(f"self/task/{self.native_id}")

    def finish(self):
        """Join, raise what the thread raised, return what it returned."""
        self.join(LONG)
        assert not self.is_alive(), "the thread did not end"
        if self.error is not None:
            raise self.error
        return self.result


def message(
    subject: bytes = b"a",
    sid: int = 1,
    payload: bytes = b"",
    *,
    reply: bytes = b"",
    header: bytes | None = None,
) -> bytes:
    """A message as a server sends it."""
    fields = [subject, b"%d" % sid] + ([reply] if reply else [])
    if header is None:
        line = b"MSG " + b" ".join(fields) + b" %d\r\n" % len(payload)
        return line + payload + b"\r\n"
    sizes = b" %d %d\r\n" % (len(header), len(header) + len(payload))
    return b"HMSG " + b" ".join(fields) + sizes + header + payload + b"\r\n"


def block(*lines: bytes, status: bytes = b"") -> bytes:
    """A header block."""
    return b"\r\n".join([b"NATS/1.0" + (b" " + status if status else b""), *lines, b"", b""])


def attached() -> Outbound:
    """An outbound side on a link that nothing is sent on: what is put in can be peeked at."""
    outbound = Outbound()
    outbound.attach(0, b"", 1 << 20)  # neither pumped nor sent from: the descriptor is not used
    return outbound


class Held:
    """Stands for the connection or consumer that messages belong to."""


def receiver(**options) -> tuple[Inbound, Any]:
    """An inbound side with one mailbox (typed loosely), whose subscription id is 1."""
    inbound, box = Inbound(Outbound()), Mailbox(**options)
    assert inbound.add(box) == 1
    return inbound, box


def fill(inbound: Inbound, *payloads: bytes) -> list:
    return inbound.feed(b"".join(message(payload=payload) for payload in payloads))


@dataclass(frozen=True)
class Sent:
    """One frame of the client."""

    verb: bytes
    subject: bytes = b""
    reply: bytes = b""
    header: bytes = b""
    payload: bytes = b""


def cut_frames(data: bytes) -> tuple[list[Sent], bytes]:
    """Read what a client sent as strictly as a server would: the whole frames and what is left."""
    found: list[Sent] = []
    start = 0
    while (end := data.find(b"\r\n", start)) >= 0:
        verb, *fields = data[start:end].split(b" ")
        at = end + 2
        if verb in (b"PUB", b"HPUB"):
            header_size = int(fields.pop(-2)) if verb == b"HPUB" else 0
            size = int(fields.pop())
            if len(data) < at + size + 2:
                break
            assert data[at + size : at + size + 2] == b"\r\n"
            subject, *reply = fields
            header, payload = data[at : at + header_size], data[at + header_size : at + size]
            found.append(Sent(verb, subject, b"".join(reply), header, payload))
            at += size + 2
        else:
            found.append(Sent(verb, b" ".join(fields)))
        start = at
    return found, data[start:]


def client_frames(data: bytes) -> list[Sent]:
    """The same, where a partial frame is an error."""
    found, left = cut_frames(data)
    assert not left, f"a partial frame: {left[:100]!r}"
    return found


def read(sock: socket.socket, n: int) -> bytes:
    """Read exactly n bytes."""
    data = b""
    while len(data) < n:
        piece = sock.recv(min(n - len(data), 1 << 20))
        assert piece, f"the link ended after {len(data)} of {n} bytes"
        data += piece
    return data


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets: the client's, which blocks as in real life, and the peer's."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(LONG)
    with ours, theirs:
        yield ours, theirs


@contextlib.contextmanager
def link(*, small: bool = False, **options) -> Iterator[tuple[Outbound, socket.socket]]:
    """An outbound side with its writer thread, attached to one end of a socketpair.

    `small` makes the socket take little, so that an unread link blocks the writer soon.
    """
    with pair() as (ours, theirs):
        if small:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        outbound = Outbound(**options)
        writer = Thread(outbound.pump)
        try:
            outbound.attach(ours.fileno(), b"", 1 << 20)
            yield outbound, theirs
        finally:
            outbound.close()
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)
            writer.finish()
            outbound.detach()


class Capsules:
    """What pyarrow takes: an object with the Arrow C data interface."""

    def __init__(self, schema, array):
        self._pair = schema, array

    def __arrow_c_array__(self, requested_schema=None):
        return self._pair
