"""What the client refuses, the server refuses too; and hardly anything else.

Holds, for configurations: the workflow document's sections on checks before a subscription, the
limits and retention section of the model deep dive, ADR-42 "Priority Groups", ADR-49, ADR-50,
ADR-51 and ADR-8 where they say which settings exclude each other.
"""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timezone
from typing import Any

import pytest

import jetsync
from jetsync import ConsumerConfig, StreamConfig
from jetsync.jetstream._wire import build
from jetsync.server import NatsServer
from tests.harness.insides import api_of

THEN = datetime(2026, 1, 1, tzinfo=timezone.utc)

# Raw JSON the server was seen to refuse, and the field that the client names.
WRONG_STREAMS: list[tuple[str, dict[str, Any]]] = [
    ("subjects", {"subjects": ["a", "a"]}),
    ("subjects", {"subjects": ["a.>", "a.b"]}),
    ("subjects", {"subjects": ["$JS.API.X"]}),
    ("subjects", {"subjects": ["$SYS.a"]}),
    ("subjects", {"subjects": [">"]}),
    ("subjects", {"subjects": ["a..b"]}),
    ("mirror", {"mirror": {"name": "O"}, "subjects": ["a"]}),
    ("mirror", {"mirror": {"name": "O"}, "sources": [{"name": "O"}]}),
    ("mirror", {"mirror": {"name": "O"}, "first_seq": 5}),
    ("mirror", {"mirror": {"name": "O"}, "allow_msg_counter": True}),
    ("mirror", {"mirror": {"name": "O"}, "allow_atomic": True}),
    ("mirror", {"mirror": {"name": "O"}, "allow_batched": True}),
    ("mirror", {"mirror": {"name": "O"}, "allow_msg_schedules": True}),
    ("mirror", {"mirror": {"name": "O"}, "subject_delete_marker_ttl": 10**9}),
    ("mirror", {"mirror": {"name": "S"}}),
    ("sources", {"sources": [{"name": "O"}, {"name": "O"}]}),
    ("sources", {"sources": [{"name": "S"}]}),
    ("sources", {"sources": [{"name": "O"}], "allow_msg_schedules": True}),
    ("mirror_direct", {"mirror_direct": True}),
    ("discard_new_per_subject", {"discard_new_per_subject": True, "max_msgs_per_subject": 1}),
    ("discard_new_per_subject", {"discard_new_per_subject": True, "discard": "new"}),
    ("allow_msg_counter", {"allow_msg_counter": True, "allow_msg_ttl": True}),
    ("allow_msg_counter", {"allow_msg_counter": True, "discard": "new"}),
    ("allow_msg_counter", {"allow_msg_counter": True, "retention": "workqueue"}),
    ("allow_msg_counter", {"allow_msg_counter": True, "allow_msg_schedules": True}),
    ("allow_msg_schedules", {"allow_msg_schedules": True, "discard": "new"}),
    ("persist_mode", {"persist_mode": "async", "storage": "memory"}),
    ("persist_mode", {"persist_mode": "async", "allow_atomic": True}),
    ("deny_purge", {"deny_purge": True, "allow_rollup_hdrs": True}),
    ("duplicate_window", {"duplicate_window": 2 * 10**9, "max_age": 10**9}),
    ("max_age", {"max_age": 10**6}),
    ("subject_delete_marker_ttl", {"subject_delete_marker_ttl": 10**8}),
    ("num_replicas", {"num_replicas": 6}),
    ("description", {"description": "x" * 4097}),
    ("metadata", {"metadata": {"k": "x" * 2**17}}),
    ("placement", {"placement": {"preferred": "s1"}}),
]
WRONG_CONSUMERS: list[tuple[str, dict[str, Any]]] = [
    ("filter_subject", {"filter_subject": "s.a", "filter_subjects": ["s.b"]}),
    ("filter_subjects", {"filter_subjects": ["s.*", "s.b"]}),
    ("filter_subjects", {"filter_subjects": ["s.b", "s.b"]}),
    ("opt_start_seq", {"opt_start_seq": 5}),
    ("opt_start_seq", {"deliver_policy": "by_start_sequence"}),
    ("opt_start_seq", {"deliver_policy": "last", "opt_start_seq": 5}),
    ("opt_start_time", {"deliver_policy": "by_start_time"}),
    ("opt_start_time", {"deliver_policy": "new", "opt_start_time": "2026-01-01T00:00:00Z"}),
    ("filter_subject", {"deliver_policy": "last_per_subject"}),
    ("backoff", {"backoff": [1, 2, 3], "max_deliver": 2}),
    ("idle_heartbeat", {"idle_heartbeat": 10**9}),
    ("idle_heartbeat", {"deliver_subject": "d", "idle_heartbeat": 10**6}),
    ("flow_control", {"flow_control": True}),
    ("flow_control", {"deliver_subject": "d", "flow_control": True}),
    ("rate_limit_bps", {"rate_limit_bps": 1000}),
    ("max_waiting", {"deliver_subject": "d", "max_waiting": 5}),
    ("deliver_subject", {"deliver_subject": "d.*"}),
    ("max_ack_pending", {"deliver_subject": "d", "ack_policy": "none", "max_ack_pending": 5}),
    ("max_expires", {"max_expires": 1000}),
    ("ack_policy", {"ack_policy": "flow_control"}),
    ("priority_groups", {"priority_policy": "overflow"}),
    ("priority_groups", {"priority_policy": "overflow", "priority_groups": ["not good"]}),
    ("priority_groups", {"priority_policy": "overflow", "priority_groups": ["x" * 17]}),
    (
        "priority_",
        {"deliver_subject": "d", "priority_policy": "overflow", "priority_groups": ["g"]},
    ),
    ("sample_freq", {"sample_freq": "often"}),
    ("description", {"description": "x" * 4097}),
]


@pytest.fixture(scope="module")
def js():
    # Both are in files: without any other, making a file stream fails now and then (10049).
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="O", subjects=["o.>"])
        js.create_stream(name="C", subjects=["s.>"])
        yield js


def seconds(wire):
    """The same fields as users write them."""
    given = dict(wire)
    for name in ("max_age", "duplicate_window", "subject_delete_marker_ttl", "idle_heartbeat"):
        if name in given:
            given[name] /= 10**9
    if "max_expires" in given:
        given["max_expires"] /= 10**9
    if "opt_start_time" in given:
        given["opt_start_time"] = THEN
    return given


@pytest.mark.parametrize(
    ("field", "wire"), WRONG_STREAMS, ids=[json.dumps(w)[:60] for _, w in WRONG_STREAMS]
)
def test_a_wrong_stream_is_refused_by_both(js, field, wire):
    with pytest.raises(jetsync.ConfigError, match=rf"\.{field}"):
        js.create_stream(name="S", **seconds(wire))
    with pytest.raises(jetsync.APIError):
        api_of(js).request("STREAM.CREATE.S", {"name": "S", **wire})


@pytest.mark.parametrize(
    ("field", "wire"), WRONG_CONSUMERS, ids=[json.dumps(w)[:60] for _, w in WRONG_CONSUMERS]
)
def test_a_wrong_consumer_is_refused_by_both(js, field, wire):
    with pytest.raises(jetsync.ConfigError, match=rf"\.{field}"):
        js.create_consumer("C", name="c", **seconds(wire))
    operation = "CONSUMER.CREATE.C.c"
    config = {"name": "c", "ack_policy": "explicit", **wire}
    with pytest.raises(jetsync.APIError):
        api_of(js).request(operation, {"stream_name": "C", "config": config})


def test_only_an_update_can_seal(js):
    with pytest.raises(jetsync.ConfigError, match="sealed"):
        js.create_stream(name="S", sealed=True)
    with pytest.raises(jetsync.InvalidStreamConfigError):
        api_of(js).request("STREAM.CREATE.S", {"name": "S", "sealed": True})


STREAM_VALUES: list[tuple[str, Any]] = [
    ("retention", "workqueue"),
    ("retention", "interest"),
    ("max_msgs", 5),
    ("max_age", 200.0),
    ("max_msgs_per_subject", 5),
    ("max_msg_size", 100),
    ("discard", "new"),
    ("storage", "memory"),
    ("no_ack", True),
    ("duplicate_window", 60.0),
    ("mirror", {"name": "O", "filter_subject": "o.a"}),
    ("sources", [{"name": "O"}]),
    ("compression", "s2"),
    ("first_seq", 7),
    ("subject_transform", {"src": "s.>", "dest": "k.>"}),
    ("republish", {"src": "s.>", "dest": "r.>"}),
    ("allow_direct", True),
    ("deny_delete", True),
    ("deny_purge", True),
    ("allow_rollup_hdrs", True),
    ("consumer_limits", {"max_ack_pending": 5, "inactive_threshold": 5}),
    ("allow_msg_ttl", True),
    ("subject_delete_marker_ttl", 5.0),
    ("allow_msg_counter", True),
    ("allow_atomic", True),
    ("allow_msg_schedules", True),
    ("persist_mode", "async"),
    ("allow_batched", True),
]


@pytest.mark.parametrize("first", STREAM_VALUES, ids=lambda value: f"{value[0]}={value[1]}"[:40])
def test_any_two_stream_fields_the_client_lets_through_are_fine_with_the_server(js, first):
    at = STREAM_VALUES.index(first)
    for second in STREAM_VALUES[at:]:
        fields = {"name": "S", **dict([first]), **dict([second])}
        if "mirror" not in fields:
            fields["subjects"] = ["p.>"]
        try:
            config = build(StreamConfig, None, fields)
        except jetsync.ConfigError:
            continue
        js.create_stream(config).delete()


CONSUMER_VALUES: list[tuple[str, Any]] = [
    ("durable_name", "c"),
    ("deliver_policy", "last"),
    ("deliver_policy", "new"),
    ("deliver_policy", "last_per_subject"),
    ("ack_policy", "none"),
    ("ack_policy", "all"),
    ("ack_wait", 5.0),
    ("max_deliver", 5),
    ("backoff", [1.0, 2.0]),
    ("filter_subject", "s.a"),
    ("filter_subjects", ["s.a", "s.b"]),
    ("replay_policy", "original"),
    ("sample_freq", "50%"),
    ("max_waiting", 5),
    ("max_ack_pending", 5),
    ("headers_only", True),
    ("max_batch", 5),
    ("max_expires", 5.0),
    ("max_bytes", 500),
    ("deliver_subject", "d.x"),
    ("deliver_group", "g"),
    ("idle_heartbeat", 1.0),
    ("flow_control", True),
    ("rate_limit_bps", 1000),
    ("inactive_threshold", 5.0),
    ("num_replicas", 1),
    ("mem_storage", True),
    ("priority_groups", ["g"]),
    ("priority_policy", "pinned_client"),
    ("priority_timeout", 5.0),
    ("pause_until", THEN),
]
BASES: list[dict[str, Any]] = [
    {},
    {"deliver_subject": "d.x", "idle_heartbeat": 1.0},
    {"priority_groups": ["g"], "priority_policy": "overflow"},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 2},
]


@pytest.mark.parametrize("base", BASES, ids=lambda base: ",".join(base) or "nothing")
def test_any_consumer_fields_the_client_lets_through_are_fine_with_the_server(js, base):
    for first, second in itertools.combinations(CONSUMER_VALUES, 2):
        fields = {"name": "c", **base, **dict([first]), **dict([second])}
        try:
            config = build(ConsumerConfig, None, fields)
        except jetsync.ConfigError:
            continue
        js.create_consumer("C", config)
        js.delete_consumer("C", "c")
