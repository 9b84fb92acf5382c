"""A real nats-server gives back exactly the configurations that were sent to it.

Each field of ``StreamConfig`` and ``ConsumerConfig`` is set to something that is not its default in
at least one of the configurations below. The server decodes strictly ("json: unknown field" is an
error since 2.12), so an accepted configuration also proves that every name is right.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta, timezone

import pytest

from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.config.stream import (
    ExternalStream,
    Placement,
    RePublish,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
)
from jetsync.jetstream.config.stream_info import (
    StreamInfo,
)
from tests.conformance.json_api import (
    ask_js,
    leftovers,
    put_consumer,
    put_stream,
    without_server_metadata,
)
from tests.conformance.server_fields import FIELDS

# -- streams ---------------------------------------------------------------------------------------

UTC = timezone.utc
START = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
STREAMS = {
    "limits": StreamConfig(
        name="S",
        description="everything with a number",
        subjects=["a.>", "b.*.c"],
        retention="interest",
        max_consumers=10,
        max_msgs=1001,
        max_bytes=2**20 + 1,
        max_age=86400.123456789,
        max_msgs_per_subject=7,
        max_msg_size=4097,
        discard="new",
        storage="memory",
        no_ack=True,
        duplicate_window=timedelta(seconds=90, microseconds=1),
        discard_new_per_subject=True,
        first_seq=2**40,
        consumer_limits=StreamConsumerLimits(inactive_threshold=59.000000001, max_ack_pending=77),
        metadata={"team": "a", "<&>": "é"},
    ),
    "rules": StreamConfig(
        name="S",
        subjects=["in.*"],
        compression="s2",
        placement=Placement(tags=[]),
        subject_transform=SubjectTransform(src="in.*", dest="kept.{{wildcard(1)}}"),
        republish=RePublish(src="kept.>", dest="seen.>", headers_only=True),
        allow_direct=True,
        deny_delete=True,
        deny_purge=True,
        duplicate_window=120,
    ),
    "features": StreamConfig(
        name="S",
        subjects=["f.>"],
        retention="workqueue",
        allow_rollup_hdrs=True,
        allow_msg_ttl=True,
        subject_delete_marker_ttl=1.000000007,
        allow_atomic=True,
        allow_msg_schedules=True,
        allow_batched=True,
        duplicate_window=120,
    ),
    "counters": StreamConfig(
        name="S",
        subjects=["n.>"],
        allow_msg_counter=True,
        persist_mode="async",
        duplicate_window=120,
    ),
    "sources": StreamConfig(
        name="S",
        sources=[
            StreamSource(name="O1", opt_start_seq=2**63, filter_subject="x.>"),
            StreamSource(
                name="O2",
                opt_start_time=START,
                subject_transforms=[
                    SubjectTransform(src="a.>", dest="b.>"),
                    SubjectTransform(src="c", dest=""),
                ],
            ),
            StreamSource(
                name="O3", external=ExternalStream(api="$JS.hub.API", deliver="deliver.hub")
            ),
            StreamSource(
                name="O4", consumer=StreamConsumerSource(name="C", deliver_subject="to.s")
            ),
        ],
    ),
    "mirror": StreamConfig(
        name="S",
        mirror=StreamSource(name="O5", opt_start_seq=5, filter_subject="y"),
        mirror_direct=True,
    ),
}


@pytest.mark.parametrize("config", STREAMS.values(), ids=STREAMS)
def test_a_stream_has_the_configuration_that_was_sent(clean, config):
    created = put_stream(clean, config)
    read = StreamInfo.from_wire(ask_js(clean, "STREAM.INFO.S"))
    # A server takes an empty placement away.
    expected = dataclasses.replace(config, placement=None)
    for info in (created, read):
        assert without_server_metadata(info.config) == expected
        assert leftovers(info) == []
        assert "_nats.level" in info.config.metadata


def test_every_stream_field_is_tried():
    tried = {name for config in STREAMS.values() for name in config.to_wire()}
    # One server alone has one replica, and a sealed stream can only come from an update.
    assert set(FIELDS[StreamConfig].split()) - tried == {"num_replicas", "sealed"}


def test_the_defaults_are_those_of_the_server(clean):
    config = put_stream(clean, StreamConfig(name="S")).config
    assert without_server_metadata(config) == StreamConfig(
        name="S", subjects=["S"], duplicate_window=120
    )


def test_what_was_read_can_be_sent_back(clean):
    config = put_stream(clean, STREAMS["limits"]).config
    again = dataclasses.replace(config, description="changed")
    answer = ask_js(clean, "STREAM.UPDATE.S", again.to_wire(include_extra=True))
    assert StreamInfo.from_wire(answer).config == again


def test_a_stream_can_be_sealed(clean):
    config = put_stream(clean, StreamConfig(name="S")).config
    answer = ask_js(clean, "STREAM.UPDATE.S", dataclasses.replace(config, sealed=True).to_wire())
    sealed = StreamInfo.from_wire(answer).config
    assert (sealed.sealed, sealed.deny_delete, sealed.deny_purge) == (True, True, True)
    assert dataclasses.replace(sealed, description="x").sealed


def test_nanoseconds_of_a_start_time_survive(clean):
    exact = "2026-01-02T03:04:05.678901234Z"
    config = StreamConfig.from_wire({"name": "S", "mirror": {"name": "O", "opt_start_time": exact}})
    read = put_stream(clean, config).config
    assert read.mirror is not None
    assert read.mirror.to_wire()["opt_start_time"] == exact
    copy = dataclasses.replace(read, description="x")
    answer = ask_js(clean, "STREAM.UPDATE.S", copy.to_wire())
    assert answer["config"]["mirror"]["opt_start_time"] == exact


# -- consumers -------------------------------------------------------------------------------------

PAUSE = datetime(2100, 1, 1, tzinfo=UTC)
CONSUMERS = {
    "pull": ConsumerConfig(
        name="C",
        durable_name="C",
        description="pulls",
        deliver_policy="by_start_sequence",
        opt_start_seq=2**63,
        ack_policy="all",
        ack_wait=30.000000003,
        max_deliver=7,
        filter_subjects=["s.a", "s.b.>"],
        replay_policy="original",
        sample_freq="50%",
        max_waiting=12,
        max_ack_pending=34,
        headers_only=True,
        max_batch=100,
        max_expires=2.000000001,
        max_bytes=4096,
        inactive_threshold=timedelta(minutes=1),
        num_replicas=1,
        mem_storage=True,
        metadata={"k": "v"},
        pause_until=PAUSE,
    ),
    "groups": ConsumerConfig(
        name="C",
        durable_name="C",
        deliver_policy="by_start_time",
        opt_start_time=START,
        ack_wait=0.25,
        backoff=[0.25, 1, timedelta(seconds=60, microseconds=1)],
        filter_subject="s.>",
        max_waiting=512,
        max_ack_pending=-1,
        priority_groups=["A-Za/z0=_"],
        priority_policy="pinned_client",
        priority_timeout=119.000000009,
    ),
    "push": ConsumerConfig(
        name="C",
        ack_policy="none",
        deliver_policy="last_per_subject",
        filter_subject=">",
        deliver_subject="to.me",
        deliver_group="g",
        rate_limit_bps=2**50,
        flow_control=True,
        idle_heartbeat=1.000000001,
        inactive_threshold=7,
    ),
}


@pytest.mark.parametrize("config", CONSUMERS.values(), ids=CONSUMERS)
def test_a_consumer_has_the_configuration_that_was_sent(clean, config):
    put_stream(clean, StreamConfig(name="S", subjects=["s.>"]))
    created = put_consumer(clean, config, action="create")
    read = ConsumerInfo.from_wire(ask_js(clean, "CONSUMER.INFO.S.C"))
    for info in (created, read):
        assert without_server_metadata(info.config) == config
        assert leftovers(info) == []
        assert (info.stream_name, info.name) == ("S", "C")
    # The same configuration again is no contradiction.
    assert put_consumer(clean, config, action="create").config == created.config


def test_every_consumer_field_is_tried():
    tried = {name for config in CONSUMERS.values() for name in config.to_wire()}
    assert set(FIELDS[ConsumerConfig].split()) - tried == {"direct", "sourcing"}


@pytest.mark.parametrize("policy", ["overflow", "pinned_client", "prioritized"])
def test_every_priority_policy_is_known_to_the_server(clean, policy):
    put_stream(clean, StreamConfig(name="S"))
    sent = ConsumerConfig(name="C", priority_policy=policy, priority_groups=["g"])
    assert put_consumer(clean, sent).config.priority_policy == policy


def test_the_consumer_defaults_are_those_of_the_server(clean):
    put_stream(clean, StreamConfig(name="S"))
    config = put_consumer(clean, ConsumerConfig(durable_name="C")).config
    assert without_server_metadata(config) == ConsumerConfig(
        name="C", durable_name="C", ack_wait=30, max_waiting=512, max_ack_pending=1000
    )


def test_a_paused_consumer_says_so(clean):
    put_stream(clean, StreamConfig(name="S", subjects=["s.>"]))
    info = put_consumer(clean, CONSUMERS["pull"])
    assert info.paused
    assert info.pause_remaining is not None
    assert info.pause_remaining > 86400
