"""What servers say about streams, consumers and accounts is read whole and leniently."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone
from typing import Any

import pytest

from jetsync.jetstream._wire import ZERO_TIME, WireObject
from jetsync.jetstream.config.account import AccountInfo, AccountLimits, AccountTier, APIStats
from jetsync.jetstream.config.consumer import AckPolicy
from jetsync.jetstream.config.consumer_info import (
    ConsumerInfo,
    ConsumerLag,
    PriorityGroupState,
    SequenceInfo,
)
from jetsync.jetstream.config.stream import ExternalStream, RetentionPolicy, SubjectTransform
from jetsync.jetstream.config.stream_info import (
    APIErrorDetail,
    ClusterInfo,
    LostStreamData,
    PeerInfo,
    StreamAlternate,
    StreamInfo,
    StreamSourceInfo,
    StreamState,
)

UTC = timezone.utc
TIME = "2026-11-21T02:53:11.016046377Z"
MOMENT = datetime(2026, 11, 21, 2, 53, 11, 16046, UTC)
NANOSECONDS = 1_795_229_591_016_046_377

CLUSTER = {
    "name": "east",
    "raft_group": "S-R3F-abc",
    "leader": "n1",
    "leader_since": TIME,
    "system_account": True,
    "traffic_account": "$SYS",
    "replicas": [
        {"name": "n2", "current": True, "active": 1_500_000_000, "peer": "abc"},
        {"name": "n3", "offline": True, "lag": 7, "peer": "def", "pending": True},
    ],
    "desired": {"name": "west", "status": {"type": "catchup"}},
}
SOURCE = {
    "name": "OTHER",
    "lag": 3,
    "active": 2_000_000_000,
    "seq": 99,
    "error": {"code": 400, "err_code": 10045, "description": "no"},
    "external": {"api": "$JS.hub.API", "deliver": "d"},
    "filter_subject": "a",
    "subject_transforms": [{"src": "a", "dest": "b"}],
}
STREAM: dict[str, Any] = {
    "config": {"name": "S", "subjects": ["s.>"], "retention": "workqueue"},
    "created": TIME,
    "state": {
        "messages": 5,
        "bytes": 2**40,
        "first_seq": 11,
        "first_ts": TIME,
        "last_seq": 2**63 + 5,
        "last_ts": TIME,
        "num_subjects": 2,
        "subjects": {"s.a": 2, "s.b": 3},
        "num_deleted": 1,
        "deleted": [12],
        "lost": {"msgs": [13, 14], "bytes": 100},
        "consumer_count": 4,
    },
    "domain": "hub",
    "cluster": CLUSTER,
    "mirror": SOURCE,
    "sources": [{"name": "THIRD"}],
    "alternates": [{"name": "S", "domain": "hub", "cluster": "east"}],
    "ts": TIME,
}
CONSUMER = {
    "stream_name": "S",
    "name": "C",
    "created": TIME,
    "config": {"durable_name": "C", "ack_policy": "none", "max_waiting": 512},
    "delivered": {"consumer_seq": 9, "stream_seq": 8, "last_active": TIME},
    "ack_floor": {"consumer_seq": 5, "stream_seq": 4},
    "num_ack_pending": 3,
    "num_redelivered": 2,
    "num_waiting": 1,
    "num_pending": 2**63,
    "cluster": {"leader": "n1"},
    "push_bound": True,
    "paused": True,
    "pause_remaining": 59_999_999_999,
    "priority_groups": [{"group": "g", "pinned_client_id": "x", "pinned_ts": TIME}],
    "ts": TIME,
}
LIMITS: dict[str, Any] = {
    "max_memory": -1,
    "max_storage": 10,
    "max_streams": 5,
    "max_consumers": -1,
    "max_ack_pending": 100,
    "memory_max_stream_bytes": -1,
    "storage_max_stream_bytes": 1000,
    "max_bytes_required": True,
}
USE = {
    "memory": 1,
    "storage": 2,
    "reserved_memory": 3,
    "reserved_storage": 4,
    "streams": 5,
    "consumers": 6,
    "limits": LIMITS,
}
ACCOUNT = {
    **USE,
    "domain": "hub",
    "api": {"level": 5, "total": 7, "errors": 1, "inflight": 2},
    "tiers": {"R1": USE, "R3": {"memory": 9}},
}
CASES: list[tuple[type[WireObject], dict[str, Any]]] = [
    (StreamInfo, STREAM),
    (ConsumerInfo, CONSUMER),
    (AccountInfo, ACCOUNT),
]


@pytest.mark.parametrize(("kind", "data"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_every_field_is_read_into_its_place(kind, data):
    info = kind.from_wire(data)
    assert info.extra == {}
    assert info.to_wire() == data
    assert pickle.loads(pickle.dumps(info)) == info


@pytest.mark.parametrize(("kind", "data"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_nothing_at_all_is_read_too(kind, data):
    assert kind.from_wire({}) == kind.from_wire(dict.fromkeys(data))
    assert kind.from_wire({}).to_wire() == {}


def test_a_stream_info_has_python_values():
    info = StreamInfo.from_wire(STREAM)
    assert info.config.retention is RetentionPolicy.WORKQUEUE
    assert (info.created, info.created_ns) == (MOMENT, NANOSECONDS)
    assert (info.ts, info.ts_ns) == (MOMENT, NANOSECONDS)
    assert info.state == StreamState(
        messages=5,
        bytes=2**40,
        first_seq=11,
        first_ts=MOMENT,
        last_seq=2**63 + 5,
        last_ts=MOMENT,
        num_subjects=2,
        subjects={"s.a": 2, "s.b": 3},
        num_deleted=1,
        deleted=[12],
        lost=LostStreamData(msgs=[13, 14], bytes=100),
        consumer_count=4,
    )
    assert info.state.first_ts_ns == info.state.last_ts_ns == NANOSECONDS
    assert info.alternates == [StreamAlternate(name="S", domain="hub", cluster="east")]


def test_a_cluster_info_has_python_values():
    assert ClusterInfo.from_wire(CLUSTER) == ClusterInfo(
        name="east",
        raft_group="S-R3F-abc",
        leader="n1",
        leader_since=MOMENT,
        system_account=True,
        traffic_account="$SYS",
        replicas=[
            PeerInfo(name="n2", current=True, active=1.5, peer="abc"),
            PeerInfo(name="n3", offline=True, lag=7, peer="def", pending=True),
        ],
        desired={"name": "west", "status": {"type": "catchup"}},
    )


def test_a_source_info_has_python_values():
    assert StreamSourceInfo.from_wire(SOURCE) == StreamSourceInfo(
        name="OTHER",
        lag=3,
        active=2.0,
        seq=99,
        error=APIErrorDetail(code=400, err_code=10045, description="no"),
        external=ExternalStream(api="$JS.hub.API", deliver="d"),
        filter_subject="a",
        subject_transforms=[SubjectTransform(src="a", dest="b")],
    )
    assert StreamSourceInfo.from_wire({"name": "O", "active": -1}).active is None


def test_an_empty_stream_has_no_times():
    never = "0001-01-01T00:00:00Z"
    state = StreamState.from_wire({"first_ts": never, "last_ts": never})
    assert (state.first_ts, state.last_ts) == (None, None)
    assert (state.first_ts_ns, state.last_ts_ns) == (None, None)


def test_a_consumer_info_has_python_values():
    info = ConsumerInfo.from_wire(CONSUMER)
    assert info.config.ack_policy is AckPolicy.NONE
    assert info.delivered == SequenceInfo(consumer_seq=9, stream_seq=8, last_active=MOMENT)
    assert info.delivered.last_active_ns == info.created_ns == info.ts_ns == NANOSECONDS
    assert info.ack_floor.last_active is None
    assert info.pause_remaining == 59.999999999
    (group,) = info.priority_groups
    assert group == PriorityGroupState(group="g", pinned_client_id="x", pinned_ts=MOMENT)
    assert group.pinned_ts_ns == NANOSECONDS


def test_lag_is_taken_out_of_the_info():
    assert ConsumerLag.from_info(ConsumerInfo.from_wire(CONSUMER)) == ConsumerLag(
        num_pending=2**63,
        num_ack_pending=3,
        num_redelivered=2,
        num_waiting=1,
        delivered_stream_seq=8,
        ack_floor_stream_seq=4,
        paused=True,
        ts=MOMENT,
    )


def test_an_account_info_has_python_values():
    info = AccountInfo.from_wire(ACCOUNT)
    assert info.api == APIStats(level=5, total=7, errors=1, inflight=2)
    assert info.limits == AccountLimits(**LIMITS)
    assert info.tiers["R3"] == AccountTier(memory=9)
    assert info.tiers["R1"].limits.max_bytes_required


def test_keys_about_the_answer_are_no_extra_fields():
    answer = {**STREAM, "type": "t", "did_create": True, "total": 1, "offset": 0, "limit": 5}
    assert StreamInfo.from_wire(answer) == StreamInfo.from_wire(STREAM)
    assert ConsumerInfo.from_wire({**CONSUMER, "type": "t"}).extra == {}
    assert AccountInfo.from_wire({**ACCOUNT, "type": "t"}).extra == {}


def test_keys_of_newer_servers_are_kept_where_they_were():
    info = StreamInfo.from_wire({"state": {"colour": "red"}, "shape": [1]})
    assert info.extra == {"shape": [1]}
    assert info.state.extra == {"colour": "red"}
    assert info.created == ZERO_TIME
