"""Deliveries: what a push subscription hands out at once, and what it leaves to be judged."""

from __future__ import annotations

import pytest

from jetsync._core.deliveries import Deliveries, DeliveryIterator, Sequences
from jetsync._core.handles import Publishing
from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync.errors import ConnectionClosedError
from tests.core.kit import message


class Source:
    """A push consumer whose deliveries wait in a mailbox."""

    def __init__(self, **limits):
        outbound = Outbound()
        self.inbound, self.box = Inbound(outbound), Mailbox(**limits)
        self.sid = self.inbound.add(self.box)
        self.nc = Publishing(outbound)
        self.nc._refusal = None
        self.deliveries = Deliveries(self.nc, self.box)
        self.deliveries.is_open = True

    def deliver(self, consumer_seq, stream_seq=None):
        reply = f"$JS.ACK.S.C.1.{stream_seq or consumer_seq}.{consumer_seq}.17.0".encode()
        self.inbound.feed(message(b"s", self.sid, b"%d" % consumer_seq, reply=reply))

    def status(self, line=b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"):
        self.inbound.feed(message(b"s", self.sid, b"", header=line))

    def taken(self):
        return [int(msg.data) for msg in iter(self.deliveries.take, None)]


@pytest.fixture
def source():
    return Source()


def test_a_status_waits_for_the_caller_that_judges_it(source):
    source.deliver(1)
    source.status()
    source.deliver(2)
    assert source.taken() == [1]
    assert source.box.get(0).status == 100
    assert source.taken() == [2]
    assert source.deliveries.taken == 2


def test_a_gap_waits_for_the_caller_that_judges_it(source):
    source.deliveries.sequences = Sequences(0)
    source.deliver(1)
    source.deliver(3)
    assert source.taken() == [1]
    source.deliveries.sequences.last = 2
    assert source.taken() == [3]
    assert source.deliveries.sequences.last == 3


def test_the_first_sequence_of_a_consumer_that_was_there_is_judged(source):
    source.deliveries.sequences = Sequences(None)
    source.deliver(7)
    assert source.taken() == []
    source.deliveries.sequences.last = 6
    assert source.taken() == [7]


@pytest.mark.parametrize(("ordered", "seen"), [(False, [1, 2, 3]), (True, [1, 2])])
def test_a_message_that_comes_again_is_odd_only_when_there_is_an_order(source, ordered, seen):
    source.deliveries.sequences = Sequences(0)
    source.deliveries.ordered = ordered
    source.deliver(1, 5)
    source.deliver(2, 6)
    source.deliver(3, 6)
    assert source.taken() == seen
    assert source.deliveries.sequences.stream == 6


def test_what_is_no_delivery_is_judged(source):
    source.deliveries.sequences = Sequences(0)
    source.inbound.feed(message(b"s", source.sid, b"1"))
    assert source.taken() == []


def test_nothing_is_ordered_after_a_message_was_dropped():
    source = Source(limit_messages=1)
    source.deliveries.sequences = Sequences(0)
    source.deliveries.ordered = True
    source.deliver(1)
    source.deliver(2)
    assert source.taken() == []


def test_the_last_one_that_was_wanted_is_handed_out_by_who_stops(source):
    source.deliveries.stop_at = 2
    source.deliver(1)
    source.deliver(2)
    assert source.taken() == [1]


def test_shut_it_gives_nothing(source):
    source.deliver(1)
    source.deliveries.is_open = False
    assert source.taken() == []
    source.deliveries.is_open = True
    assert source.taken() == [1]


def test_a_closed_connection_gives_nothing(source):
    source.deliver(1)
    source.nc._refusal = ConnectionClosedError
    assert source.taken() == []


def test_iterating_takes_the_slow_way_for_what_is_odd_only(source):
    calls = []

    def slow():
        calls.append(source.box.get(0))
        if calls[-1] is None:
            raise StopIteration
        return calls[-1]

    source.deliver(1)
    source.deliver(2)
    source.status()
    source.deliver(3)
    every = list(DeliveryIterator(source.deliveries, slow))
    assert [msg.data for msg in every] == [b"1", b"2", b"", b"3"]
    assert len(calls) == 2


class OddError(BaseException):
    """As of a callback: no Exception."""


def test_callbacks_get_what_is_there_and_the_slow_way_what_is_odd(source):
    got, reported = [], []

    def callback(msg):
        got.append(msg.data)
        if msg.data == b"2":
            raise OddError

    def report(error, msg):
        reported.append((type(error), msg.data))

    def deliver(most):
        source.deliveries.deliver(callback, report, lambda: source.box.get(0), False, most)

    for n in (1, 2):
        source.deliver(n)
    source.status()
    for n in (3, 4):
        source.deliver(n)
    deliver(4)
    assert got == [b"1", b"2", b"", b"3"]
    assert reported == [(OddError, b"2")]
    deliver(4)
    assert got[4:] == [b"4"]
    deliver(4)
    assert len(got) == 5


def test_what_an_acknowledgement_raises_is_reported_with_its_message(source):
    """A message that is not of JetStream has no ack() at all."""
    got, reported = [], []
    source.deliver(1)
    source.deliver(2)
    source.deliveries.deliver(
        got.append, lambda error, msg: reported.append((msg.data, error)), lambda: None, True, 64
    )
    assert [msg.data for msg in got] == [b"1", b"2"]
    assert [(data, type(error)) for data, error in reported] == [
        (b"1", AttributeError),
        (b"2", AttributeError),
    ]
