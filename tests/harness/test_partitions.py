"""A parted cluster is parted between its servers, and whole again after ``join()``."""

from __future__ import annotations

import pytest

import jetsync
from tests.harness.partitions import PartedCluster
from tests.harness.waiting import wait_until

ELECTION = 60.0


@pytest.fixture
def cluster():
    with PartedCluster(3) as three:
        yield three


def routes(server):
    return {route["remote_name"] for route in server.monitor("routez").get("routes", [])}


def stored(nc, subject):
    try:
        return nc.jetstream().publish(subject, b"x", timeout=2.0).seq
    except jetsync.Error:
        return 0


def replicas(stream):
    cluster = stream.info().cluster
    assert cluster is not None
    return cluster.replicas


@pytest.mark.parametrize("how", ["part", "cut"])
def test_the_majority_elects_a_leader_and_the_minority_has_none(cluster, how):
    leader = cluster.wait_for_leader()
    others = [server for server in cluster.servers if server is not leader]
    getattr(cluster, how)([leader])
    wait_until(lambda: cluster.leader() in others, timeout=ELECTION)
    # The one that is alone still takes clients; its JetStream answers no request.
    with jetsync.connect(leader.url, ignore_discovered_servers=True) as nc:
        assert nc.rtt() >= 0
        with pytest.raises(jetsync.Error):
            nc.jetstream(timeout=1.0).create_stream(name="ALONE", num_replicas=3)


def test_a_stream_of_three_goes_on_without_the_parted_one_and_heals(cluster):
    cluster.wait_for_leader()
    with jetsync.connect(cluster.urls) as nc:
        stream = nc.jetstream().create_stream(name="P", subjects=["p.>"], num_replicas=3)
        first = stored(nc, "p.1")
        alone = next(s for s in cluster.servers if s.url != str(nc.connected_url))
        cluster.part([alone])
        last = wait_until(lambda: stored(nc, "p.2"), timeout=ELECTION)
        assert last > first
        cluster.join()
        wait_until(lambda: all(p.current for p in replicas(stream)), timeout=ELECTION)


def test_after_join_no_route_goes_around_the_links(cluster):
    """With every link refusing, no server reaches another one."""
    for server in cluster.servers:
        cluster.cut([server])
    wait_until(lambda: not any(routes(server) for server in cluster.servers), timeout=ELECTION)
