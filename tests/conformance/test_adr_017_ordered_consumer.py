"""ADR-17 and protocol section 5.7: the ordered consumer, with pulls underneath.

"Ephemeral, ack none, max_deliver 1, mem_storage, num_replicas 1, inactive_threshold set (5 min
typical); recreate at last stream seq+1 (by_start_sequence) on gap, missed heartbeats, deleted, or
reconnect." How it reads is tested in tests/jetstream/test_ordered.py, many resets in
tests/reliability/test_ordered_resets.py.
"""

from __future__ import annotations

import json

import pytest

import jetsync
from jetsync.server import NatsServer

LONG = 20.0


@pytest.fixture
def nc():
    with NatsServer() as server, jetsync.connect(server.url) as connection:
        yield connection


@pytest.fixture
def stream(nc):
    js = nc.jetstream()
    made = js.create_stream(name="S", subjects=["S.>"])
    js.publish_many((f"S.{n % 2}", b"%d" % n) for n in range(20))
    return made


def creations(watcher, count):
    """The consumer configurations that were asked for."""
    found: list[dict[str, object]] = []
    while len(found) < count:
        found.append(json.loads(watcher.next(timeout=LONG).data)["config"])
    return found


def test_the_server_consumer_is_the_one_of_the_document(nc, stream):
    with stream.ordered_consumer(filter_subjects="S.1", headers_only=True) as ordered:
        config = ordered.info().config
        assert config.durable_name is None
        assert config.deliver_subject is None
        assert config.ack_policy == jetsync.AckPolicy.NONE
        assert config.max_deliver == 1
        assert config.mem_storage is True
        assert config.num_replicas == 1
        assert config.inactive_threshold == 300.0
        assert config.headers_only is True
        assert list(config.filter_subjects or [config.filter_subject]) == ["S.1"]


@pytest.mark.parametrize("trouble", ["gap", "deleted", "reconnect", "heartbeat"])
def test_it_begins_again_behind_the_last_message(nc, stream, trouble):
    """Each time under a new name, by sequence, whatever policy it began with."""
    with nc.subscribe("$JS.API.CONSUMER.CREATE.S.>") as watcher:
        nc.flush()
        with stream.ordered_consumer(
            deliver_policy="by_start_sequence", opt_start_seq=3
        ) as ordered:
            assert ordered.fetch(5, timeout=LONG).last_seq == 7
            first = ordered.name
            if trouble == "gap":
                assert len(nc.jetstream().consumer("S", first).fetch(2, timeout=LONG)) == 2
            elif trouble == "deleted":
                nc.jetstream().delete_consumer("S", first)
            elif trouble == "reconnect":
                nc.force_reconnect()
            else:
                # All that is left was taken by another client: a heartbeat tells.
                assert len(nc.jetstream().consumer("S", first).fetch(13, timeout=LONG)) == 13
            batch = ordered.fetch(13, timeout=LONG, heartbeat=0.2)
            assert [msg.metadata.stream_seq for msg in batch] == list(range(8, 21))
            one, two = creations(watcher, 2)
            assert one["deliver_policy"] == two["deliver_policy"] == "by_start_sequence"
            assert (one["opt_start_seq"], two["opt_start_seq"]) == (3, 8)
            assert one["name"] == first
            assert two["name"] == ordered.name != first
            assert ordered.resets == 1


def test_order_is_judged_by_the_consumer_sequence_not_the_stream_sequence(nc, stream):
    """Holes in the stream (deletes, filters) are no gaps."""
    for seq in (2, 3, 9):
        stream.delete_msg(seq)
    with stream.ordered_consumer(filter_subjects=["S.0", "S.1"]) as ordered:
        got = [msg.metadata.stream_seq for msg in ordered.fetch(17, timeout=LONG)]
        assert got == [seq for seq in range(1, 21) if seq not in (2, 3, 9)]
        assert ordered.resets == 0
