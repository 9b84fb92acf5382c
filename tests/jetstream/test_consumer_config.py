"""ConsumerConfig: what is sent, what is read, and what is refused before anything is sent."""

from __future__ import annotations

import dataclasses
import pickle
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from jetsync.errors import ConfigError
from jetsync.jetstream._wire import build
from jetsync.jetstream.config.consumer import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    PriorityPolicy,
    ReplayPolicy,
)

UTC = timezone.utc
NOW = datetime(2026, 11, 21, 2, 53, 11, tzinfo=UTC)

# What a server answers for a consumer that has every field, however odd together.
WIRE = {
    "name": "C",
    "durable_name": "C",
    "description": "does it",
    "deliver_policy": "by_start_time",
    "opt_start_seq": 2**64 - 1,
    "opt_start_time": "2026-11-21T02:53:11.016046377Z",
    "ack_policy": "all",
    "ack_wait": 30_000_000_003,
    "max_deliver": 7,
    "backoff": [1, 1_500_000_000, 60_000_000_001],
    "filter_subject": "a",
    "filter_subjects": ["b", "c.>"],
    "replay_policy": "original",
    "rate_limit_bps": 2**63,
    "sample_freq": "50%",
    "max_waiting": 12,
    "max_ack_pending": -1,
    "flow_control": True,
    "headers_only": True,
    "max_batch": 100,
    "max_expires": 2_000_000_001,
    "max_bytes": 4096,
    "deliver_subject": "to.me",
    "deliver_group": "g",
    "idle_heartbeat": 100_000_000,
    "inactive_threshold": 5_000_000_000,
    "num_replicas": 3,
    "mem_storage": True,
    "direct": True,
    "sourcing": True,
    "metadata": {"k": "v"},
    "pause_until": "2027-01-01T00:00:00Z",
    "priority_groups": ["A", "b/=_-"],
    "priority_policy": "pinned_client",
    "priority_timeout": 120_000_000_000,
}


def test_what_is_read_is_what_is_sent():
    config = ConsumerConfig.from_wire(WIRE)
    assert config.extra == {}
    assert config.to_wire() == WIRE
    assert pickle.loads(pickle.dumps(config)) == config
    assert config.opt_start_time_ns == 1_795_229_591_016_046_377


def test_enumerations_and_durations_are_converted():
    config = ConsumerConfig.from_wire(WIRE)
    assert config.deliver_policy is DeliverPolicy.BY_START_TIME
    assert config.ack_policy is AckPolicy.ALL
    assert config.replay_policy is ReplayPolicy.ORIGINAL
    assert config.priority_policy is PriorityPolicy.PINNED_CLIENT
    assert config.backoff == [1e-9, 1.5, 60.000000001]
    assert config.ack_wait == 30.000000003


def test_the_ack_policy_is_explicit_and_always_sent():
    assert ConsumerConfig().ack_policy is AckPolicy.EXPLICIT
    assert ConsumerConfig().to_wire() == {"ack_policy": "explicit"}


def test_durations_may_be_timedeltas_in_lists_too():
    config = ConsumerConfig(backoff=[timedelta(milliseconds=5), 2], ack_wait=timedelta(minutes=1))
    assert config.to_wire() == {
        "ack_policy": "explicit",
        "ack_wait": 60_000_000_000,
        "backoff": [5_000_000, 2_000_000_000],
    }


PUSH = {"deliver_subject": "to.me"}
GROUPED = {"priority_groups": ["g"], "priority_policy": "overflow"}
BAD: list[tuple[str, dict[str, Any]]] = [
    ("name: .*must not hold '.'", {"name": "a.b"}),
    ("durable_name: .*must not hold '>'", {"durable_name": ">"}),
    ("durable_name 'a' differs from name 'b'", {"durable_name": "a", "name": "b"}),
    ("description must have at most", {"description": "é" * 2049}),
    ("deliver_policy must be one of 'all', 'last'", {"deliver_policy": "first"}),
    ("ack_policy must be one of 'none', 'all', 'explicit'", {"ack_policy": "explict"}),
    ("opt_start_seq needs deliver_policy='by_start_sequence', not all", {"opt_start_seq": 5}),
    (
        "opt_start_seq needs .*, not new",
        {"opt_start_seq": 5, "deliver_policy": DeliverPolicy.NEW},
    ),
    ("opt_start_time needs deliver_policy='by_start_time', not all", {"opt_start_time": NOW}),
    (
        "opt_start_time needs .* not by_start_sequence",
        {"opt_start_time": NOW, "opt_start_seq": 1, "deliver_policy": "by_start_sequence"},
    ),
    (
        "opt_start_time needs a time zone",
        {"opt_start_time": datetime(2026, 1, 1), "deliver_policy": "by_start_time"},
    ),
    ("ack_wait must not be negative", {"ack_wait": -1}),
    (r"backoff\[1\] must not be negative", {"backoff": [1, -1]}),
    (r"backoff has 3 values, more than max_deliver \(2\)", {"backoff": [1] * 3, "max_deliver": 2}),
    ("max_deliver must be between -1", {"max_deliver": -2}),
    ("filter_subject excludes", {"filter_subject": "a", "filter_subjects": ["b"]}),
    ("filter_subject: .*empty token", {"filter_subject": "a."}),
    ("filter_subjects: subject is empty", {"filter_subjects": [""]}),
    ("filter_subjects has .a. more than once", {"filter_subjects": ["a", "a"]}),
    ("filter_subjects: .*overlap", {"filter_subjects": ["a.*", "a.b"]}),
    ("filter_subjects must be a list", {"filter_subjects": "a"}),
    ("sample_freq must be a percentage", {"sample_freq": "half"}),
    ("max_expires must be at least 0.001", {"max_expires": 0.0005}),
    ("idle_heartbeat must be at least 0.1", {**PUSH, "idle_heartbeat": 0.05}),
    ("deliver_subject: .*wildcard", {"deliver_subject": "a.*"}),
    ("deliver_subject: .*empty token", {"deliver_subject": "a..b"}),
    ("max_waiting excludes deliver_subject", {**PUSH, "max_waiting": 5}),
    ("priority_groups excludes deliver_subject", {**PUSH, **GROUPED}),
    ("priority_timeout excludes deliver_subject", {**PUSH, "priority_timeout": 5}),
    ("priority_policy excludes deliver_subject", {**PUSH, "priority_policy": "overflow"}),
    ("priority_groups: .*not ''", {**GROUPED, "priority_groups": [""]}),
    ("priority_groups: .*not 'a b'", {**GROUPED, "priority_groups": ["a b"]}),
    ("priority_groups: .*not 'a{17}'", {**GROUPED, "priority_groups": ["a" * 17]}),
    ("num_replicas must be between 0 and 5", {"num_replicas": 6}),
    ("pause_until needs a time zone", {"pause_until": datetime(2026, 1, 1)}),
    ("metadata must have at most", {"metadata": {"k": "x" * 2**17}}),
]
INCOMPLETE: list[tuple[str, dict[str, Any]]] = [
    ("idle_heartbeat needs deliver_subject", {"idle_heartbeat": 5}),
    ("flow_control needs deliver_subject", {"flow_control": True, "idle_heartbeat": 0}),
    ("flow_control needs idle_heartbeat", {**PUSH, "flow_control": True}),
    ("rate_limit_bps needs deliver_subject", {"rate_limit_bps": 1000}),
    ("deliver_group needs deliver_subject", {"deliver_group": "g"}),
    ("opt_start_seq is missing", {"deliver_policy": "by_start_sequence"}),
    ("opt_start_time is missing", {"deliver_policy": "by_start_time"}),
    ("filter_subject is missing", {"deliver_policy": "last_per_subject"}),
    ("priority_groups is missing", {"priority_policy": "prioritized"}),
    ("priority_groups needs a priority_policy", {"priority_groups": ["g"]}),
    ("priority_timeout needs a priority_policy", {"priority_timeout": 5}),
]
GOOD: list[dict[str, Any]] = [
    {},
    {"durable_name": "d"},
    {"durable_name": "d", "name": "d", "inactive_threshold": 0},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
    {"deliver_policy": "by_start_time", "opt_start_time": NOW},
    {"deliver_policy": "last_per_subject", "filter_subject": ">"},
    {"deliver_policy": "last_per_subject", "filter_subjects": ["a", "b"]},
    {"backoff": [1, 2, 3]},
    {"backoff": [1, 2, 3], "max_deliver": 3},
    {"ack_policy": "none"},
    {"max_ack_pending": -1, "max_deliver": -1},
    {"sample_freq": "100"},
    {**PUSH, "idle_heartbeat": 0.1, "flow_control": True, "rate_limit_bps": 1},
    {**PUSH, "deliver_group": "g"},
    {**GROUPED, "priority_timeout": 5},
    {"priority_groups": ["A" * 16], "priority_policy": "pinned_client"},
]


@pytest.mark.parametrize(("words", "fields"), BAD, ids=[words for words, _ in BAD])
def test_what_contradicts_itself_is_refused_at_once(words, fields):
    with pytest.raises(ConfigError, match=r"ConsumerConfig\." + words):
        ConsumerConfig(**fields)


@pytest.mark.parametrize(("words", "fields"), INCOMPLETE, ids=[words for words, _ in INCOMPLETE])
def test_what_is_incomplete_is_refused_before_it_is_sent(words, fields):
    config = ConsumerConfig(**fields)
    with pytest.raises(ConfigError, match=r"ConsumerConfig\." + words):
        config.validate()
    with pytest.raises(ConfigError, match=r"ConsumerConfig\." + words):
        build(ConsumerConfig, config, {})


@pytest.mark.parametrize("fields", GOOD, ids=lambda fields: ",".join(fields) or "nothing")
def test_what_a_server_takes_is_let_through(fields):
    build(ConsumerConfig, None, fields).validate()


def test_a_subscribing_call_may_complete_a_configuration():
    config = ConsumerConfig(idle_heartbeat=5, flow_control=True)
    built = build(ConsumerConfig, config, {"deliver_subject": "to.me"})
    assert built.to_wire() == {
        "ack_policy": "explicit",
        "flow_control": True,
        "idle_heartbeat": 5_000_000_000,
        "deliver_subject": "to.me",
    }


def test_what_a_newer_server_knows_passes_through():
    read = ConsumerConfig.from_wire({"deliver_policy": "by_mood", "opt_start_seq": 4, "mood": 1})
    assert read.ack_policy is AckPolicy.EXPLICIT
    changed = dataclasses.replace(read, description="x")
    changed.validate()
    assert changed.to_wire(include_extra=True) == {
        "ack_policy": "explicit",
        "deliver_policy": "by_mood",
        "opt_start_seq": 4,
        "description": "x",
        "mood": 1,
    }
