"""Traces of messages: what each server of a cluster does with one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

import jetsync
from jetsync.client.link_inbox import LinkInbox
from jetsync.client.message_trace import trace_message
from jetsync.client.port import port_of
from jetsync.server import NatsCluster, NatsServer
from tests.cli.run_command import run
from tests.harness.fakeserver import FakeServer, Peer
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until

LONG = 30.0


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


def test_a_trace_shows_the_stream_and_what_no_client_wants(far):
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


def test_reports_may_come_in_any_order():
    """A server further on may be quicker than the one that passed the message on to it."""
    reports = [("1.1", 0), ("1", 1), ("2", 0), ("", 2)]

    def script(peer: Peer) -> None:
        peer.handshake()
        sid = peer.expect(b"SUB").split()[2]
        line, block = peer.expect_publish()
        assert line.startswith(b"HPUB traced ")
        (subject,) = re.findall(rb"Nats-Trace-Dest: (\S+)", block)
        for hop, hops in reports:
            report: dict[str, object] = {
                "server": {"name": f"server {hop}"},
                "request": {"header": {"Nats-Trace-Hop": [hop]} if hop else {}},
                "hops": hops,
                "events": [],
            }
            peer.send_message(subject, sid, json.dumps(report).encode())
            peer.send(b"PING\r\n")  # so that each is received by itself
            while (line := peer.read_line()) != b"PONG":
                if line == b"PING":  # of the drain: the client has all it waits for
                    peer.send(b"PONG\r\n")
        peer.serve()

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        trace = nc.trace("traced", timeout=LONG)
    assert [hop.hop for hop in trace.hops] == ["", "1", "1.1", "2"]
    assert trace.complete


def reporting(*events: dict[str, object], hops: int = 0) -> Callable[[Peer], None]:
    """A server that reports these events, and that it sent the message on so many times."""

    def script(peer: Peer) -> None:
        peer.handshake()
        sid = peer.expect(b"SUB").split()[2]
        _, block = peer.expect_publish()
        (subject,) = re.findall(rb"Nats-Trace-Dest: (\S+)", block)
        report = {"server": {"name": "one"}, "hops": hops, "events": events}
        peer.send_message(subject, sid, json.dumps(report).encode())
        peer.serve()

    return script


DENIED = {"type": "eg", "kind": 0, "error": "denied"}


def test_what_went_wrong_at_a_server_is_told_and_is_no_egress():
    with (
        FakeServer(reporting({"type": "eg", "kind": 0}, DENIED)) as fake,
        jetsync.connect(fake.url) as nc,
    ):
        trace = nc.trace("traced", timeout=LONG)
    assert trace.errors == ("one: denied",)
    assert trace.egress == {"client": 1}


@pytest.mark.parametrize(
    ("hops", "told"),
    [(0, "error: one: denied"), (1, "not every server has sent its report in time")],
)
def test_the_command_ends_with_1_for_an_error_and_for_a_server_that_is_silent(hops, told):
    events = () if hops else (DENIED,)
    with FakeServer(reporting(*events, hops=hops)) as fake:
        wait = "300ms" if hops else "30s"
        done = run("trace", "traced", "--server", fake.url, "--wait", wait)
    assert done.code == 1
    assert told in done.err


def test_a_trace_without_a_link_fails_at_once_and_its_message_is_never_sent():
    with (
        NatsServer(jetstream=False) as server,
        Proxy(server.url) as proxy,
        jetsync.connect(proxy.url) as nc,
        jetsync.connect(server.url) as other,
    ):
        got = other.subscribe("traced")
        other.flush(timeout=LONG)
        proxy.stop()
        wait_until(lambda: not nc.is_connected, timeout=LONG)
        with pytest.raises(jetsync.DisconnectedError):
            nc.trace("traced", deliver=True, timeout=LONG)
        proxy.start()
        wait_until(lambda: nc.is_connected, timeout=LONG)
        nc.flush(timeout=LONG)
        other.flush(timeout=LONG)
        assert got.pending_messages == 0


def test_what_is_for_one_link_is_not_sent_on_the_next():
    """The link breaks after the inbox was made, before the message is put in."""
    with (
        NatsServer(jetstream=False) as server,
        Proxy(server.url) as proxy,
        jetsync.connect(proxy.url) as nc,
        nc.subscribe("late") as got,
        LinkInbox(port_of(nc), "trace") as inbox,
    ):
        proxy.cut()
        wait_until(lambda: nc.stats.reconnects == 1, timeout=LONG)
        with pytest.raises(jetsync.DisconnectedError, match="during the trace"):
            inbox.send("late")
        # Also before the inbox has heard of the end of its link.
        with LinkInbox(port_of(nc), "trace") as deaf:
            port_of(nc).detach(deaf)
            proxy.cut()
            wait_until(lambda: nc.stats.reconnects == 2, timeout=LONG)
            with pytest.raises(jetsync.DisconnectedError, match="during the trace"):
                deaf.send("late")
        nc.flush(timeout=LONG)
        assert got.pending_messages == 0


def test_an_older_server_cannot_trace():
    class Old:
        class server_info:
            version_tuple = (2, 10, 29)
            version = "2.10.29"

    with pytest.raises(jetsync.ConfigError, match=r"2\.11"):
        trace_message(Old(), "a", b"", None, False, None)  # type: ignore[arg-type]
