"""Pulling from a leader that comes and goes: no lost pull, message or status leaves a reader
waiting for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import jetsync
from jetsync.jetstream.access import api_of
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.consumers.consumer import Consumer
from tests.harness.fakeserver import FakeServer
from tests.harness.soak import scaled
from tests.jetstream.unsteady import UnsteadyLeader

SEEDS = scaled(1, 50)
UNSTEADY = scaled(0.4, 2.0)
"""Seconds in which the leader loses what it can."""
PATIENCE = 20.0
"""Seconds without a message after which a reader is stuck: far more than two heartbeats and a
second, which is what a lost pull may cost."""
COUNT = scaled(100, 400)


def by_count(consumer: Consumer, wanted: Callable[[], bool]) -> Iterator[bytes]:
    yield from from_stream(consumer.messages(max_messages=10, expires=1, heartbeat=0.1), wanted)


def by_bytes(consumer: Consumer, wanted: Callable[[], bool]) -> Iterator[bytes]:
    yield from from_stream(consumer.messages(max_bytes=1000, expires=1, heartbeat=0.1), wanted)


def by_default(consumer: Consumer, wanted: Callable[[], bool]) -> Iterator[bytes]:
    yield from from_stream(consumer.messages(expires=1, heartbeat=0.1), wanted)


def from_stream(messages: jetsync.MessageStream, wanted: Callable[[], bool]) -> Iterator[bytes]:
    with messages:
        while wanted():
            try:
                yield messages.next(timeout=0.5).data
            except jetsync.TimeoutError:
                continue


def by_fetch(consumer: Consumer, wanted: Callable[[], bool]) -> Iterator[bytes]:
    while wanted():
        try:
            yield from [msg.data for msg in consumer.fetch(20, timeout=0.3)]
        except jetsync.TimeoutError:
            continue


WAYS = scaled([by_count, by_fetch], [by_count, by_bytes, by_default, by_fetch])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_a_leader_loses_its_reader_gets_every_message(way, seed):
    """A leader loses pulls, messages, heartbeats and ends of pulls, and goes away with a word or
    without; once it stays, everything comes."""
    leader = UnsteadyLeader(seed, COUNT, UNSTEADY)
    missing = {b"%d" % n for n in range(COUNT)}
    with FakeServer(leader) as fake, jetsync.connect(fake.url) as nc:
        api = api_of(nc.jetstream(timeout=1))
        consumer = Consumer(api, ConsumerInfo(stream_name="S", name="c"))
        last = time.monotonic()

        def wanted() -> bool:
            assert time.monotonic() - last < PATIENCE, f"stuck: {missing}, {leader.faults}"
            return bool(missing)

        for data in way(consumer, wanted):
            missing.discard(data)
            last = time.monotonic()
        nc.close()
    assert leader.faults
