"""Reading a replicated stream: any server may deliver, only the leader's answer ends a range."""

from __future__ import annotations

import uuid

import pytest

import jetsync
from tests.harness.waiting import wait_until
from tests.spark.test_range_read import rest, whole


def fill(js, name):
    """A stream on three servers with a thousand messages."""
    js.create_stream(name=name, subjects=[f"{name}.>"], num_replicas=3, allow_direct=True)
    js.publish_many([(f"{name}.x", b"%d" % i) for i in range(1000)]).raise_for_failed()


def the_consumer(js, name):
    """The only consumer of a stream. The list leaves out those whose server answers too late."""
    listed: list[jetsync.ConsumerInfo] = []

    def look():
        listed[:] = js.consumers(name)
        return listed

    wait_until(look, timeout=20)
    return listed[0]


@pytest.mark.parametrize("method", ["consumer", "direct"])
def test_what_was_just_published_is_read_whichever_replica_delivers(cluster, method):
    name = "R" + uuid.uuid4().hex[:8]
    with jetsync.connect(cluster.url) as nc:
        js = nc.jetstream(timeout=15)
        fill(js, name)
        for round_ in range(1, 11):
            js.publish_many([(f"{name}.x", b"")] * 100).raise_for_failed()
            options = {"servers": cluster.url, "fetchBatch": "1000", "readMethod": method}
            seen = rest(whole(js, name, **options))
            assert seen == list(range(1, 1001 + 100 * round_))
        js.delete_stream(name)


def test_the_death_of_the_server_that_delivers_loses_and_repeats_nothing(fresh_cluster):
    with jetsync.connect(fresh_cluster.url) as nc:
        js = nc.jetstream(timeout=15)
        fill(js, "R")
        options = {"servers": fresh_cluster.url, "fetchBatch": "100", "readMethod": "consumer"}
        batches = whole(js, "R", **options)
        seen = rest([next(batches)])
        consumer = the_consumer(js, "R")
        assert consumer.cluster is not None
        fresh_cluster.server(consumer.cluster.leader).kill()
        seen += rest(batches)
        assert seen == list(range(1, 1001))


def test_the_death_of_a_server_during_direct_gets_loses_and_repeats_nothing(fresh_cluster):
    with jetsync.connect(fresh_cluster.url) as nc:
        js = nc.jetstream(timeout=15)
        fill(js, "R")
        options = {"servers": fresh_cluster.url, "fetchBatch": "100", "readMethod": "direct"}
        batches = whole(js, "R", **options)
        seen = rest([next(batches)])
        where = js.stream("R").info().cluster
        assert where is not None
        fresh_cluster.server(where.leader).kill()
        seen += rest(batches)
        assert seen == list(range(1, 1001))
