"""Tables and pages of streams and consumers, each column and line, word for word.

``golden/views.txt`` has what is shown. With JETSYNC_WRITE_GOLDEN=1 it is written anew, to be read
before it is committed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jetsync.cli import consumer_views, stream_views
from jetsync.cli.output import Fields, Output, Table
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.testing import make_message

FILE = Path(__file__).parent / "golden/views.txt"
SECOND = 1_000_000_000
PLACE = {"name": "C", "leader": "n1"}


def a_stream(state: dict[str, Any] | None = None, **config: Any) -> StreamInfo:
    """A stream at which there is something to show everywhere."""
    replicas = [
        {"name": "n2", "current": True},
        {"name": "n3", "current": False, "lag": 1500},
        {"name": "n4", "current": False, "offline": True},
        {"name": "n5", "current": False},
    ]
    return StreamInfo.from_wire(
        {
            "created": "2026-01-02T03:04:05Z",
            "config": {
                "name": "S",
                "description": "all of it",
                "subjects": ["a", "b", "c", "d", "e"],
                "sources": [{"name": "A"}, {"name": "B"}],
                "storage": "memory",
                "retention": "workqueue",
                "discard": "new",
                "num_replicas": 3,
                "max_msgs": 5000,
                "max_bytes": 2048,
                "max_age": 60 * SECOND,
                "max_msg_size": 10,
                "max_consumers": 6,
                "max_msgs_per_subject": 2,
                "compression": "s2",
                "duplicate_window": 90 * SECOND,
                "placement": {"cluster": "C", "tags": ["ssd"]},
                "republish": {"src": "a.>", "dest": "again.>", "headers_only": True},
                "subject_transform": {"src": "b", "dest": "c"},
                "consumer_limits": {"inactive_threshold": 60 * SECOND, "max_ack_pending": 8},
                "metadata": {"k": "v", "a": "b"},
                **dict.fromkeys(
                    (
                        "allow_direct",
                        "mirror_direct",
                        "allow_rollup_hdrs",
                        "allow_msg_ttl",
                        "allow_msg_counter",
                        "allow_atomic",
                        "allow_batched",
                        "allow_msg_schedules",
                        "deny_delete",
                        "deny_purge",
                        "no_ack",
                        "sealed",
                        "discard_new_per_subject",
                    ),
                    True,
                ),
                **config,
            },
            "state": {
                "messages": 7000,
                "bytes": 3000,
                "first_seq": 1,
                "last_seq": 12_000,
                "num_subjects": 4,
                "num_deleted": 5,
                "consumer_count": 2,
                **(state or {}),
            },
            "cluster": {**PLACE, "replicas": replicas},
            "sources": [
                {"name": "A", "lag": 1200, "active": 3 * SECOND},
                {"name": "B", "lag": 0, "active": -1},
            ],
        }
    )


def a_consumer(info: dict[str, Any] | None = None, **config: Any) -> ConsumerInfo:
    """A consumer at which there is something to show everywhere."""
    return ConsumerInfo.from_wire(
        {
            "stream_name": "S",
            "name": "c",
            "created": "2026-01-02T03:04:05Z",
            "config": {
                "durable_name": "c",
                "description": "all of it",
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": 9,
                "ack_policy": "explicit",
                "ack_wait": 30 * SECOND,
                "max_deliver": 4,
                "backoff": [SECOND, 60 * SECOND],
                "max_ack_pending": 10,
                "max_waiting": 512,
                "replay_policy": "original",
                "filter_subjects": ["a", "b"],
                "headers_only": True,
                "inactive_threshold": 5 * SECOND,
                "priority_groups": ["jobs"],
                "num_replicas": 3,
                "metadata": {"k": "v"},
                **config,
            },
            "delivered": {"consumer_seq": 5, "stream_seq": 8},
            "ack_floor": {"consumer_seq": 1, "stream_seq": 2},
            "num_ack_pending": 3,
            "num_redelivered": 1,
            "num_waiting": 2,
            "num_pending": 1234,
            "cluster": {**PLACE, "replicas": [{"name": "n2", "current": True}]},
            "priority_groups": [{"group": "jobs", "pinned_client_id": "id1"}],
            **(info or {}),
        }
    )


def views() -> Iterator[tuple[str, Table | Fields]]:
    when = {"first_ts": "2026-01-02T03:04:05Z", "last_ts": "2026-01-02T03:04:06Z"}
    lost = {**when, "lost": {"msgs": [3, 4], "bytes": 9}}
    streams = [a_stream(), a_stream(mirror={"name": "M"}, subjects=[]), a_stream(subjects=[])]
    yield "streams", stream_views.table(streams)
    yield "no streams", stream_views.table([])
    yield "report of streams", stream_views.report([a_stream()])
    yield "a stream", stream_views.fields(a_stream(lost))
    yield "a mirror", stream_views.fields(a_stream(mirror={"name": "M"}, sources=[], subjects=[]))
    push: dict[str, Any] = {"deliver_subject": "d", "durable_name": None}
    yield "consumers", consumer_views.table([a_consumer(), a_consumer(filter_subjects=[], **push)])
    paused = {"paused": True, "pause_remaining": 90 * SECOND}
    states: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        (paused, {}),
        ({"num_ack_pending": 10}, {}),
        ({"num_ack_pending": 10}, {"ack_policy": "none"}),
        ({"num_waiting": 0}, {}),
        ({"num_waiting": 0, "num_pending": 0}, {}),
        ({"num_waiting": 0}, push),
    ]
    yield (
        "report of consumers",
        consumer_views.report([a_consumer(info, **config) for info, config in states]),
    )
    yield "a consumer", consumer_views.fields(a_consumer(paused))
    yield "a push consumer", consumer_views.fields(a_consumer(**push))


def test_each_column_and_line_is_what_it_always_was() -> None:
    said = "\n".join(
        "\n".join([f"== {name}", *view.lines(lambda _, text: text), ""]) for name, view in views()
    )
    if os.environ.get("JETSYNC_WRITE_GOLDEN"):
        FILE.write_text(said)
    assert said.splitlines() == FILE.read_text().splitlines()


def test_a_delivery_that_is_not_the_first_says_so() -> None:
    out = Output(out=io.StringIO(), err=io.StringIO())
    first, again = (
        consumer_views.delivered_text(out, make_message(b"x", num_delivered=number))
        for number in (1, 3)
    )
    assert "delivery" not in first
    assert ", delivery 3\n" in again
