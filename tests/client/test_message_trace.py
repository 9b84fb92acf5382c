"""Traces of messages: what each server of a cluster does with one."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.client.message_trace import trace_message
from jetsync.server import NatsCluster
from tests.harness.waiting import wait_until


@pytest.fixture
def far(cluster: NatsCluster):
    """A connection to the first server, and one to another."""
    first, second = (server.url for server in cluster.servers[:2])
    with (
        jetsync.connect(first, ignore_discovered_servers=True) as near,
        jetsync.connect(second, ignore_discovered_servers=True) as other,
    ):
        yield near, other


def test_a_trace_names_both_servers_on_the_way(far):
    near, other = far
    got = other.subscribe("traced.far")
    other.flush()
    wait_until(lambda: len(near.trace("traced.far").hops) == 2)
    trace = near.trace("traced.far", b"x", headers={"K": "v"})
    assert [hop.hop for hop in trace.hops] == ["", "1"]
    assert [hop.kind for hop in trace.hops] == ["client", "router"]
    assert len({hop.server for hop in trace.hops}) == 2
    assert trace.egress == {"router": 1, "client": 1}
    assert (trace.complete, trace.errors) == (True, ())
    assert got.pending_messages == 0


def test_a_message_is_delivered_when_that_is_wanted(far):
    near, _ = far
    got = near.subscribe("traced.near")
    near.flush()
    assert near.trace("traced.near", b"x", headers={"K": "v"}, deliver=True).egress == {"client": 1}
    msg = got.next(5)
    assert (msg.data, msg.headers["K"]) == (b"x", "v")


def test_a_trace_shows_the_stream_and_what_nobody_wants(far):
    near, _ = far
    js = near.jetstream()
    js.create_stream(name="TRACEDS", subjects=["traced.stored"], storage="memory")
    trace = near.trace("traced.stored")
    assert trace.egress["jetstream"] == 1
    assert js.stream("TRACEDS").cached_info.state.messages == 0
    assert near.trace("traced.unheard").egress == {}
    js.delete_stream("TRACEDS")


def test_a_refused_message_has_no_trace_and_a_bad_subject_is_an_error(far):
    near, _ = far
    with pytest.raises(jetsync.ConfigError):
        near.trace("bad subject")
    with pytest.raises(jetsync.TimeoutError, match="no server"):
        near.trace("traced.unheard", timeout=0)


def test_an_older_server_cannot_trace():
    class Old:
        class server_info:
            version_tuple = (2, 10, 29)
            version = "2.10.29"

    with pytest.raises(jetsync.ConfigError, match=r"2\.11"):
        trace_message(Old(), "a", b"", None, False, None)  # type: ignore[arg-type]
