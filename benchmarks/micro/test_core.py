"""What one message costs in the compiled core, without sockets and threads."""

from __future__ import annotations

import pyarrow
import pytest

from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import message_jsack, parse_puback
from jetsync._core.outbound import Outbound, encode_headers
from jetsync.jetstream.message import JetStreamMsg, MsgBatch

COUNT = 1000
SIZES = (16, 128, 1024)


def frames(sid: int, size: int, headers: bytes = b"") -> bytes:
    """COUNT messages as a consumer delivers them."""
    payload = b"x" * size
    out = []
    for n in range(1, COUNT + 1):
        reply = b"$JS.ACK.ORDERS.worker.1.%d.%d.1795229586547204964.0" % (n, n)
        if headers:
            head = b"HMSG orders.new %d %s %d %d\r\n" % (
                sid,
                reply,
                len(headers),
                len(headers) + size,
            )
        else:
            head = b"MSG orders.new %d %s %d\r\n" % (sid, reply, size)
        out.append(head + headers + payload + b"\r\n")
    return b"".join(out)


class Wire:
    """An Inbound with one mailbox, and a batch of frames for it."""

    def __init__(self, size: int, headers: bytes = b"") -> None:
        self.outbound = Outbound(offline_limit=1 << 30)
        self.inbound = Inbound(self.outbound)
        self.mailbox = Mailbox(msg_type=JetStreamMsg)
        self.bytes = frames(self.inbound.add(self.mailbox), size, headers)

    def receive(self) -> None:
        self.inbound.feed(self.bytes)

    def take(self) -> MsgBatch:
        batch = self.mailbox.new_batch(MsgBatch, self.outbound)
        self.mailbox.take_into(batch, COUNT)
        return batch


@pytest.fixture(params=SIZES, ids=lambda size: f"{size}B")
def wire(request: pytest.FixtureRequest) -> Wire:
    return Wire(request.param)


def test_parse_and_queue(benchmark, wire):
    def run():
        wire.receive()
        wire.mailbox.discard()

    benchmark(run)


def test_parse_queue_and_build_messages(benchmark, wire):
    def run():
        wire.receive()
        for _ in range(COUNT):
            wire.mailbox.get(0)

    benchmark(run)


def test_parse_queue_and_iterate_a_batch(benchmark, wire):
    def run():
        wire.receive()
        for msg in wire.take():
            len(msg.data)

    benchmark(run)


def test_parse_queue_and_arrow(benchmark, wire):
    def run():
        wire.receive()
        pyarrow.record_batch(wire.take())

    benchmark(run)


def test_headers(benchmark):
    wire = Wire(128, b"NATS/1.0\r\nNats-Msg-Id: 1234567890\r\nContent-Type: text/plain\r\n\r\n")

    def run():
        wire.receive()
        for msg in wire.take():
            msg.headers.get("Nats-Msg-Id")

    benchmark(run)


def test_ack_metadata(benchmark):
    wire = Wire(16)
    wire.receive()
    messages = list(wire.take())

    def run():
        for msg in messages:
            message_jsack(msg)

    benchmark(run)


def test_acknowledge_a_whole_batch(benchmark):
    def setup():
        wire = Wire(16)
        wire.receive()
        return (wire.take(),), {}

    benchmark.pedantic(lambda batch: batch.ack(), setup=setup, rounds=50)


def test_encode_publishes(benchmark):
    data = b"x" * 128

    def setup():
        return (Outbound(offline_limit=1 << 30),), {}

    def run(outbound):
        publish = outbound.publish
        for _ in range(COUNT):
            publish("orders.new", data)

    benchmark.pedantic(run, setup=setup, rounds=50)


def test_encode_headers(benchmark):
    headers = {"Nats-Msg-Id": "1234567890", "Content-Type": "text/plain"}
    benchmark(lambda: [encode_headers(headers) for _ in range(COUNT)])


def test_read_a_confirmation(benchmark):
    benchmark(lambda: [parse_puback(b'{"stream":"ORDERS","seq":12345}') for _ in range(COUNT)])
