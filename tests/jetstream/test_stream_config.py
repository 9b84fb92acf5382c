"""StreamConfig: what is sent, what is read, and what is refused before anything is sent."""

from __future__ import annotations

import dataclasses
import pickle
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from jetsync.errors import ConfigError
from jetsync.jetstream._wire import build
from jetsync.jetstream.config.stream import (
    DiscardPolicy,
    ExternalStream,
    PersistMode,
    Placement,
    RePublish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
)

UTC = timezone.utc

# What a server answers for a stream that has every field.
WIRE = {
    "name": "ORDERS",
    "description": "all orders",
    "subjects": ["orders.>", "returns.*"],
    "retention": "interest",
    "max_consumers": 10,
    "max_msgs": 1000,
    "max_bytes": 2**40,
    "max_age": 86_400_000_000_007,
    "max_msgs_per_subject": 5,
    "max_msg_size": 2**31 - 1,
    "discard": "new",
    "storage": "memory",
    "num_replicas": 3,
    "no_ack": True,
    "duplicate_window": 120_000_000_001,
    "placement": {"cluster": "east", "tags": ["ssd"]},
    "sources": [
        {
            "name": "OTHER",
            "opt_start_time": "2026-11-21T02:53:11.016046377Z",
            "subject_transforms": [{"src": "a.*", "dest": "b.{{wildcard(1)}}"}],
            "external": {"api": "$JS.hub.API", "deliver": "hub.deliver"},
        },
        {"name": "THIRD", "opt_start_seq": 2**63 + 1, "filter_subject": "x.>"},
        {"name": "FOURTH", "consumer": {"name": "C", "deliver_subject": "d.c"}},
    ],
    "compression": "s2",
    "first_seq": 77,
    "subject_transform": {"src": "orders.>", "dest": "o.>"},
    "republish": {"src": "orders.>", "dest": "seen.>", "headers_only": True},
    "allow_direct": True,
    "mirror_direct": True,
    "discard_new_per_subject": True,
    "sealed": True,
    "deny_delete": True,
    "deny_purge": True,
    "consumer_limits": {"inactive_threshold": 60_000_000_000, "max_ack_pending": 100},
    "allow_msg_ttl": True,
    "subject_delete_marker_ttl": 5_000_000_000,
    "allow_msg_counter": True,
    "allow_atomic": True,
    "allow_msg_schedules": True,
    "persist_mode": "async",
    "allow_batched": True,
    "metadata": {"team": "a", "_nats.level": "5"},
}


def test_what_is_read_is_what_is_sent():
    config = StreamConfig.from_wire(WIRE)
    assert config.extra == {}
    assert config.to_wire() == WIRE
    assert pickle.loads(pickle.dumps(config)) == config


def test_the_parts_have_their_classes():
    config = StreamConfig.from_wire(WIRE)
    assert config.retention is RetentionPolicy.INTEREST
    assert config.discard is DiscardPolicy.NEW
    assert config.storage is StorageType.MEMORY
    assert config.compression is StoreCompression.S2
    assert config.persist_mode is PersistMode.ASYNC
    assert config.placement == Placement(cluster="east", tags=["ssd"])
    assert config.consumer_limits == StreamConsumerLimits(
        inactive_threshold=60, max_ack_pending=100
    )
    assert config.subject_transform == SubjectTransform(src="orders.>", dest="o.>")
    assert config.republish == RePublish(src="orders.>", dest="seen.>", headers_only=True)
    first, second, third = config.sources
    assert first.external == ExternalStream(api="$JS.hub.API", deliver="hub.deliver")
    assert first.opt_start_time == datetime(2026, 11, 21, 2, 53, 11, 16046, UTC)
    assert first.opt_start_time_ns == 1_795_229_591_016_046_377
    assert second.opt_start_seq == 2**63 + 1
    assert third.consumer == StreamConsumerSource(name="C", deliver_subject="d.c")


def test_only_what_differs_from_the_defaults_is_sent():
    assert StreamConfig(name="S").to_wire() == {"name": "S"}
    config = StreamConfig(
        name="S", subjects=("s.>",), max_age=timedelta(hours=1), retention="workqueue"
    )
    assert config.to_wire() == {
        "name": "S",
        "subjects": ["s.>"],
        "retention": "workqueue",
        "max_age": 3_600_000_000_000,
    }


def test_a_name_of_the_wrong_field_is_answered_with_the_right_one():
    with pytest.raises(ConfigError, match="no field 'replicas'; did you mean 'num_replicas'"):
        build(StreamConfig, None, {"name": "S", "replicas": 3})


SOURCE = {"name": "A"}
BAD: list[tuple[str, dict[str, Any]]] = [
    ("name is missing", {"name": ""}),
    ("name: .*must not hold '.'", {"name": "a.b"}),
    ("name: .*must not hold ' '", {"name": "a b"}),
    (r"name: .*must not hold '\*'", {"name": "a*"}),
    ("name: .*must not hold '>'", {"name": "a>"}),
    ("name: .*must not hold '/'", {"name": "a/b"}),
    (r"name: .*must not hold '\\\\'", {"name": "a\\b"}),
    ("name: .*256 bytes", {"name": "a" * 256}),
    ("name must be a str", {"name": 7}),
    ("description must have at most 4096", {"description": "x" * 4097}),
    ("metadata must have at most 131072", {"metadata": {"k": "x" * 2**17}}),
    (r"metadata\['k'\] must be a str", {"metadata": {"k": 1}}),
    ("subjects must be a list", {"subjects": "a.>"}),
    ("subjects: .*empty token", {"subjects": ["a..b"]}),
    ("subjects: .*'>' before its end", {"subjects": ["a.>.b"]}),
    ("subjects: .*must not hold ' '", {"subjects": ["a b"]}),
    ("subjects: subject is empty", {"subjects": [""]}),
    ("subjects has 'a' more than once", {"subjects": ["a", "b", "a"]}),
    ("retention must be one of 'limits', 'interest', 'workqueue'", {"retention": "limit"}),
    ("storage must be one of 'file', 'memory'", {"storage": "disk"}),
    ("max_msgs must be between -1", {"max_msgs": -2}),
    ("max_bytes must be an int", {"max_bytes": 1e6}),
    ("max_msg_size must be between -1 and 2147483647", {"max_msg_size": 2**31}),
    ("max_age must not be negative", {"max_age": -1}),
    ("max_age must be at least 0.1", {"max_age": 0.05}),
    ("max_age must be below 292 years", {"max_age": 1e11}),
    ("max_age must be seconds or a timedelta", {"max_age": "1h"}),
    ("duplicate_window must be at least 0.1", {"duplicate_window": 0.001}),
    (r"duplicate_window \(120.0 s\) .*max_age", {"max_age": 60, "duplicate_window": 120}),
    ("num_replicas must be between 1 and 5, got 0", {"num_replicas": 0}),
    ("num_replicas must be between 1 and 5, got 6", {"num_replicas": 6}),
    ("first_seq must be between 0", {"first_seq": -1}),
    ("subject_delete_marker_ttl must be at least 1", {"subject_delete_marker_ttl": 0.5}),
    ("deny_purge excludes", {"deny_purge": True, "allow_rollup_hdrs": True}),
    ("discard_new_per_subject needs discard", {"discard_new_per_subject": True}),
    (
        "discard_new_per_subject needs max_msgs_per_subject",
        {"discard_new_per_subject": True, "discard": "new"},
    ),
    ("persist_mode 'async' needs", {"persist_mode": "async", "storage": "memory"}),
    ("persist_mode 'async' excludes", {"persist_mode": "async", "allow_atomic": True}),
    ("placement must not have preferred", {"placement": {"preferred": "n1"}}),
    ("mirror excludes subjects", {"mirror": SOURCE, "subjects": ["a"]}),
    ("mirror excludes sources", {"mirror": SOURCE, "sources": [SOURCE]}),
    ("mirror excludes first_seq", {"mirror": SOURCE, "first_seq": 5}),
    ("StreamSource.name is missing", {"mirror": {}}),
    ("StreamSource.name: ", {"sources": [{"name": "a.b"}]}),
    ("StreamSource.filter_subject: ", {"sources": [{**SOURCE, "filter_subject": "a..b"}]}),
    (
        "StreamSource.filter_subject excludes",
        {"sources": [{**SOURCE, "filter_subject": "a", "subject_transforms": [{"src": "a"}]}]},
    ),
    (
        "StreamSource.opt_start_seq excludes",
        {"mirror": {**SOURCE, "opt_start_seq": 1, "opt_start_time": datetime.now(UTC)}},
    ),
    (
        "StreamSource.opt_start_time needs a time zone",
        {"mirror": {**SOURCE, "opt_start_time": datetime(2026, 1, 1)}},
    ),
    ("StreamSource has no field 'nmae'; did you mean 'name'", {"mirror": {"nmae": "A"}}),
    ("ExternalStream.api is missing", {"mirror": {**SOURCE, "external": {"deliver": "d"}}}),
    ("ExternalStream.api: .*wildcard", {"mirror": {**SOURCE, "external": {"api": "a.>"}}}),
    ("ExternalStream.deliver: ", {"mirror": {**SOURCE, "external": {"api": "a", "deliver": " "}}}),
    ("SubjectTransform.src: ", {"subject_transform": {"src": "a..b", "dest": "c"}}),
    ("RePublish.src: ", {"republish": {"src": "a b", "dest": "c"}}),
    ("RePublish.dest is missing", {"republish": {"src": "a"}}),
    ("StreamConsumerLimits.max_ack_pending", {"consumer_limits": {"max_ack_pending": -2}}),
]


@pytest.mark.parametrize(("words", "fields"), BAD, ids=[words for words, _ in BAD])
def test_what_cannot_be_right_is_refused_by_name(words, fields):
    with pytest.raises(ConfigError, match=words):
        StreamConfig(**{"name": "S", **fields})


def test_a_stream_needs_a_name():
    with pytest.raises(ConfigError, match=r"StreamConfig\.name is missing"):
        StreamConfig()


def test_what_a_server_says_is_never_judged():
    odd = {"name": "a.b", "num_replicas": 9, "max_age": 1, "retention": "forever", "max_msgs": -5}
    config = StreamConfig.from_wire(odd)
    assert config.to_wire() == odd
    assert config.retention == "forever"


def test_a_changed_copy_is_checked_again():
    config = StreamConfig(name="S", max_age=60)
    assert dataclasses.replace(config, max_age=90).to_wire()["max_age"] == 90 * 10**9
    with pytest.raises(ConfigError, match="duplicate_window"):
        dataclasses.replace(config, duplicate_window=61)


def test_the_domain_of_a_source_becomes_the_prefix_of_its_api():
    source = StreamSource(name="S", domain="hub")
    assert source.to_wire() == {"name": "S", "external": {"api": "$JS.hub.API", "deliver": ""}}
    assert StreamSource.from_wire(source.to_wire()) == source
    with pytest.raises(ConfigError, match="domain excludes external"):
        StreamSource(name="S", domain="hub", external=ExternalStream(api="$JS.hub.API"))
    with pytest.raises(ConfigError, match="domain"):
        StreamSource(name="S", domain="a.b")
