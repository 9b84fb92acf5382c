"""API levels (ADR-44, and ADR-33 for metadata): the server asks for the levels that our table has.

It writes into the metadata of a stream or consumer which level its configuration needs.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

import jetsync
from jetsync import ConsumerConfig, StreamConfig
from jetsync.jetstream._wire import build
from jetsync.jetstream.levels import LEVELS, consumer_needs, stream_needs
from jetsync.server import NatsServer
from tests.harness.insides import connection_of

STREAMS: list[dict[str, Any]] = [
    {"max_msgs": 5},
    {"allow_direct": True, "compression": "s2", "first_seq": 5, "metadata": {"a": "b"}},
    {"allow_msg_ttl": True},
    {"allow_msg_ttl": True, "subject_delete_marker_ttl": 5, "allow_rollup_hdrs": True},
    {"allow_msg_counter": True},
    {"allow_atomic": True},
    {"allow_msg_schedules": True},
    {"persist_mode": "async"},
    {"allow_batched": True},
    {"allow_batched": True, "allow_msg_ttl": True},
]
CONSUMERS: list[dict[str, Any]] = [
    {"ack_wait": 5},
    {"filter_subjects": ["s.a", "s.b"], "metadata": {"a": "b"}},
    {"pause_until": datetime(2100, 1, 1, tzinfo=timezone.utc)},
    {"priority_groups": ["g"], "priority_policy": "overflow"},
    {"priority_groups": ["g"], "priority_policy": "pinned_client", "priority_timeout": 5},
    {"deliver_subject": "d", "ack_policy": "flow_control", "flow_control": True}
    | {"idle_heartbeat": 1},
]


@pytest.fixture(scope="module")
def js():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="C", subjects=["s.>"])
        yield js


def level_of(needs):
    return max((LEVELS.get(version, 0) for _, version in needs), default=0)


@pytest.mark.parametrize("fields", STREAMS, ids=lambda fields: ",".join(fields))
def test_streams_need_the_level_of_our_table(js, fields):
    config = build(StreamConfig, None, {"name": "S", **fields})
    stream = js.create_stream(config)
    try:
        said = stream.info().config.metadata
        assert int(said["_nats.req.level"]) == level_of(stream_needs(config.to_wire()))
    finally:
        stream.delete()


@pytest.mark.parametrize("fields", CONSUMERS, ids=lambda fields: ",".join(fields))
def test_consumers_need_the_level_of_our_table(js, fields):
    config = build(ConsumerConfig, None, {"name": "c", **fields})
    consumer = js.create_consumer("C", config)
    try:
        said = consumer.info().config.metadata
        assert int(said["_nats.req.level"]) == level_of(consumer_needs(config.to_wire()))
    finally:
        js.delete_consumer("C", "c")


def test_a_policy_that_came_later_is_said_to_need_the_level_of_the_groups(js):
    # The policy is unknown to 2.11, whatever this says: the table is the careful one.
    config = ConsumerConfig(name="c", priority_groups=["g"], priority_policy="prioritized")
    consumer = js.create_consumer("C", config)
    assert consumer.info().config.metadata["_nats.req.level"] == "1"
    assert level_of(consumer_needs(config.to_wire())) == 2
    js.delete_consumer("C", "c")


def test_the_server_tells_its_level_in_every_way(js):
    level, said = js.account_info().api.level, connection_of(js).server_info
    assert said is not None
    assert level == said.api_lvl >= LEVELS["2.15"]
    assert int(js.stream("C").cached_info.config.metadata["_nats.level"]) == level
    assert js.stream("C").cached_info.config.metadata["_nats.ver"] == said.version
