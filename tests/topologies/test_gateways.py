"""Two clusters that gateways join: streams of the other one, moved streams, gateways away."""

from __future__ import annotations

from typing import Any

import pytest

import jetsync
from tests.harness.soak import SOAKING, scaled
from tests.harness.topologies import SuperCluster, cluster_of
from tests.harness.traffic import READERS, Traffic
from tests.harness.waiting import later, wait_until

SIZES = scaled((1, 2), (3, 3))
REPLICAS = scaled(1, 3)
MOVES = scaled(1, 6)
CUTS = scaled(1, 10)
AWAY = scaled(0.5, 3.0)


@pytest.fixture(scope="module")
def world():
    with SuperCluster(SIZES) as one:
        yield one


def test_a_stream_moves_between_clusters_while_it_is_written_and_read(world, record_figure):
    with jetsync.connect(world.urls("east")) as nc:
        js = nc.jetstream(timeout=30)
        # One replica: a cluster of the short form has no three servers.
        fields: dict[str, Any] = {"name": "M", "subjects": ["m"], "num_replicas": REPLICAS}
        js.create_stream(**fields, placement={"cluster": "west"})
        try:
            with Traffic(js, "M", "m", readers=("messages", "ordered")) as traffic:
                traffic.goes_on()
                for move in range(MOVES):
                    to = "east" if move % 2 == 0 else "west"
                    js.update_stream(**fields, placement={"cluster": to})

                    def moved(to=to):
                        traffic.check()
                        return cluster_of(js, "M") == to

                    wait_until(moved, timeout=120)
                    traffic.goes_on()
            record_figure("G39 stream moves between clusters", MOVES)
            traffic.record(record_figure, "G39 stream moves")
        finally:
            js.delete_stream("M")


def test_work_in_the_other_cluster_waits_while_the_gateways_are_away(world, record_figure):
    """Of lookups, too, none gives up before its time."""
    with jetsync.connect(world.urls("east")) as nc, jetsync.connect(world.urls("west")) as there:
        js, owner = nc.jetstream(timeout=30), there.jetstream(timeout=30)
        stream = js.create_stream(
            name="G", subjects=["g"], num_replicas=REPLICAS, placement={"cluster": "west"}
        )
        # What a pull gets behind a cut gateway comes again after the acknowledgement's time only.
        readers = READERS if SOAKING else ("ordered", "ordered push")
        try:
            with Traffic(js, "G", "g", readers=readers, owner=owner) as traffic:
                traffic.goes_on()
                for _ in range(CUTS):
                    world.cut()
                    later(AWAY)  # the outage itself
                    world.join()
                    for call in (stream.info, js.account_info):
                        found = traffic.timed("a lookup", 30, call)
                        assert not isinstance(found, jetsync.Error), found
                    traffic.goes_on(timeout=120)
            record_figure("G39 gateways: cuts", CUTS)
            traffic.record(record_figure, "G39 gateways")
        finally:
            owner.delete_stream("G")
