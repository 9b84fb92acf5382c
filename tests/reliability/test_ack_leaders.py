"""A confirmed acknowledgement goes on until its deadline when the leader of the consumer dies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import jetsync
from jetsync.server import NatsCluster
from tests.harness.waiting import wait_until

PATIENCE = 40.0


def settled(cluster: NatsCluster, consumer: jetsync.Consumer) -> str:
    """Wait until all three servers have the consumer; returns the name of its leader."""

    def is_settled() -> object:
        state = consumer.info(timeout=PATIENCE).cluster
        return state and state.leader and all(peer.current for peer in state.replicas)

    wait_until(is_settled, timeout=PATIENCE)
    state = consumer.cached_info.cluster
    assert state is not None
    assert state.leader is not None
    return state.leader


@pytest.mark.timeout(4 * PATIENCE)
def test_ack_sync_is_confirmed_over_the_death_of_the_leader(fresh_cluster):
    """Of a message and of a batch at the same time. The connection leads to another server, which
    stays: for the acknowledgements there is no responder at first, although the consumer exists."""
    cluster = fresh_cluster
    with jetsync.connect(cluster.urls, timeout=PATIENCE) as nc:
        js = nc.jetstream(timeout=PATIENCE)
        js.create_stream(name="S", subjects=["s"], num_replicas=3)
        consumer = js.create_consumer("S", durable_name="c", ack_wait=10 * PATIENCE)
        for n in range(4):
            js.publish("s", b"%d" % n, timeout=PATIENCE)
        name = settled(cluster, consumer)
    leader = next(server for server in cluster.servers if server.name == name)
    others = [server.url for server in cluster.servers if server is not leader]
    with jetsync.connect(others, ignore_discovered_servers=True, timeout=PATIENCE) as far:
        sub = far.jetstream(timeout=PATIENCE).consumer("S", "c")
        one, batch = sub.next(timeout=PATIENCE), sub.fetch(3, timeout=PATIENCE)
        assert len(batch) == 3
        leader.kill()
        with ThreadPoolExecutor(2) as pool:
            acks = [pool.submit(each.ack_sync, timeout=PATIENCE) for each in (one, batch)]
            for ack in acks:
                ack.result()
        info = sub.info(timeout=PATIENCE)
        assert info.num_ack_pending == 0
        assert info.cluster is not None
        assert info.cluster.leader != name
