"""What one message costs in the compiled core, without sockets and threads."""

from __future__ import annotations

import pyarrow
import pytest

from benchmarks.micro.wire import COUNT, HEADERS, Wire
from jetsync._core.encoding import encode_headers
from jetsync._core.message import message_jsack, parse_puback
from jetsync._core.outbound import Outbound

SIZES = (16, 128, 1024)


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
    wire = Wire(128, HEADERS)

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
