"""Hostile servers: whatever bytes come, the good messages before them are delivered, and the link
ends in a ProtocolError and a reconnect. Never a crash, a hang, or memory without bound."""

from __future__ import annotations

import contextlib
import logging
import socket

import pytest

import jetsync
from jetsync._core.inbound import EVENT_BAD, EVENT_EOF, Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from tests.core.kit import Thread
from tests.harness.fakeserver import ClientGone, FakeServer
from tests.harness.memory import settled
from tests.harness.soak import scaled
from tests.wire import generate
from tests.wire.outcome import by_reference, drained
from tests.wire.streams import MAX_SIZE

STREAMS = scaled(8_000, 1_000_000)
CONNECTIONS = scaled(200, 20_000)
PATIENCE = 30.0
LIMIT = 16 << 20  # bytes of one line, far over what any line may have
GROWTH = 32  # MiB
GOOD = b"MSG good 1 2\r\nok\r\n"


def hostile(number):
    """A hostile stream, with a good message in front of it."""
    return GOOD + generate.hostile(generate.of(number), 8)


@pytest.mark.timeout(scaled(300, 7200))
def test_hostile_streams_over_a_socket_end_in_delivery_or_a_protocol_error(record_figure):
    """Each over a real socket, into the pump that a connection's reader thread runs."""
    delivered = refused = 0
    before = settled()
    for number in range(STREAMS):
        data = hostile(number)
        outbound, box = Outbound(), Mailbox()
        inbound = Inbound(outbound, MAX_SIZE)
        assert inbound.add(box) == 1
        ours, theirs = socket.socketpair()
        with ours, theirs:
            # Small enough for the sockets' own buffers, so one thread can play both sides.
            theirs.sendall(data)
            theirs.shutdown(socket.SHUT_WR)
            while (event := inbound.pump(ours.fileno()))[0] not in (EVENT_BAD, EVENT_EOF):
                continue
        expected = by_reference([data], 1, MAX_SIZE)
        assert (event[0] == EVENT_BAD) == bool(expected.bad), (number, data)
        messages = drained(box)
        assert [(m.data, m.raw_headers) for m in messages] == [
            (m[3], m[2]) for m in expected.messages[1]
        ]
        assert messages[0].data == b"ok"
        delivered += len(messages)
        refused += event[0] == EVENT_BAD
    growth = settled() - before
    record_figure("G14 hostile streams without a crash", STREAMS, goal=">= 20,000")
    record_figure("G14 growth by hostile streams", growth, "MiB", goal=f"<= {GROWTH}")
    assert growth <= GROWTH
    assert delivered > STREAMS
    assert STREAMS / 4 < refused < STREAMS


class Abuse:
    """A server that greets a client well, sends it a hostile stream and hangs up; when the client
    comes again it behaves."""

    def __init__(self):
        self.connections = 0
        self.stream = b""

    def __call__(self, peer):
        self.connections += 1
        with contextlib.suppress(ClientGone, OSError):  # the client may leave at any point
            peer.handshake()
            peer.expect(b"SUB")
            if self.connections % 2:
                peer.send(GOOD + self.stream)
                peer.half_close()
                peer.wait_for_end()
            else:
                peer.send(b"MSG good 1 5\r\nfinal\r\n")
                peer.serve()


@pytest.mark.timeout(scaled(300, 7200))
def test_a_connection_survives_every_hostile_server(record_figure, caplog):
    """What was good is delivered, however bad what follows; the connection comes back by itself."""
    caplog.set_level(logging.CRITICAL, "jetsync")
    abuse = Abuse()
    before = settled()
    with contextlib.ExitStack() as fakes:
        for number in range(CONNECTIONS):
            # A fake server keeps what clients said, so that each serves some of them only.
            if number % 100 == 0:
                fakes.close()
                fake = fakes.enter_context(FakeServer(abuse))
            abuse.stream = generate.hostile(generate.of(number))
            with jetsync.connect(fake.url, reconnect_wait=0.001) as nc:
                sub = nc.subscribe("good")
                messages = [sub.next(timeout=PATIENCE)]
                while messages[-1].data != b"final":
                    messages.append(sub.next(timeout=PATIENCE))
                nc.flush(timeout=PATIENCE)
                assert nc.stats.reconnects == 1
            assert messages[0].data == b"ok"
            for message in messages:
                # Whatever a header block holds: it can be looked at, and its bytes are there.
                assert message.headers.malformed >= 0
                assert message.raw_headers or not message.headers
    growth = settled() - before
    record_figure("hostile servers survived by a connection", CONNECTIONS)
    record_figure("growth by hostile servers", growth, "MiB", goal=f"<= {GROWTH}")
    assert growth <= GROWTH


def test_a_flood_without_an_end_takes_no_memory_without_an_end():
    """A line without an end is refused at its limit, and nothing more is read."""
    for start in (b"MSG ", b"INFO ", b"-ERR ", b"x"):
        outbound = Outbound()
        inbound = Inbound(outbound)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.settimeout(0.1)
            reader = Thread(inbound.pump, ours.fileno())
            theirs.sendall(start)
            sent = 0
            while reader.is_alive() and sent < LIMIT:
                with contextlib.suppress(TimeoutError):
                    sent += theirs.send(b"y" * 65536)
            theirs.shutdown(socket.SHUT_WR)
            kind, _ = reader.finish()
        assert kind == EVENT_BAD
        assert sent < LIMIT


def test_malformed_headers_are_delivered_counted_and_harm_no_neighbour():
    """What a publisher may write into a header block, with a good message on either side."""
    blocks = [
        b"\r\n\r\n",
        b"NATS/1.0",
        b"N",
        b"GARBAGE",
        b"NATS/1.0\r\nno colon\r\n: no name\r\nGood: yes\r\n\r\n",
        b"\xff\xfe\x00\r\n:\r\n",
        b"NATS/1.0\r\nA: b\rc\nd\r\n\r\n",
        b"K: v",
    ]
    malformed = [0, 0, 1, 1, 2, 2, 0, 0]
    data = b""
    for block in blocks:
        data += GOOD + b"HMSG bad 1 %d %d\r\n%s\r\n" % (len(block), len(block), block)
    inbound, box = Inbound(Outbound()), Mailbox()
    inbound.add(box)
    assert inbound.feed(data + GOOD) == []
    messages = drained(box)
    assert [m.data for m in messages[::2]] == [b"ok"] * (len(blocks) + 1)
    assert [m.raw_headers for m in messages[1::2]] == blocks
    assert [m.headers.malformed for m in messages[1::2]] == malformed
    assert messages[9].headers["Good"] == "yes"
