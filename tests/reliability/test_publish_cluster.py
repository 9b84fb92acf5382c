"""Publishing to a replicated stream whose leader dies, or steps down (P3, G1, G2)."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.server import NatsCluster
from tests.harness.soak import scaled
from tests.reliability.publish_load import Load, contents

KILLS = scaled(2, 40)
BETWEEN = scaled(5_000, 20_000)
STEPS, STEP = scaled(4, 200), 1_500
PATIENCE = 40.0
STALL = 5.0
"""Seconds. An election takes a fraction of one; a message that the old leader swallowed is sent
again after half a second, one more and two more when the next leaders have done so too; a window of
messages after one second and two more."""

IN_PROCESS = "err_code 10158"
"""A server that steps down in the middle of storing a message and leads again later refuses every
copy of it as "in process", for ever: the outcome is unknown then, and said to be."""


def test_leaders_killed_one_after_another_lose_and_double_nothing(record_figure):
    with (
        NatsCluster(3) as cluster,
        jetsync.connect(cluster.urls, reconnect_wait=0.02, reconnect_jitter=0.02) as nc,
    ):
        js = nc.jetstream(max_pending=500, timeout=20)
        js.create_stream(name="S", subjects=["s"], num_replicas=3)
        with Load(js, "s", burst=300) as load:
            for _ in range(KILLS):
                load.grow(BETWEEN, timeout=90)
                leader = cluster.server(leader_of(js))
                leader.kill()
                # A leader is elected meanwhile, and what was under way is sent again to it.
                load.grow(BETWEEN, timeout=90)
                cluster.start(60)
        found, sequences = contents(js, "S")
        load.ledger.record(record_figure, found, f"{KILLS} dead leaders")
        load.ledger.compare(found, sequences)
        assert len(load.ledger.stored) >= 0.9 * 2 * KILLS * BETWEEN


@pytest.mark.timed
def test_leaders_that_step_down_stall_no_publisher(record_figure):
    """Of all four ways to publish each goes on, and what is known to be stored was known soon.

    A quarter of the timeout, 10 s here, was waited for a swallowed message once.
    """
    with NatsCluster(3) as cluster, jetsync.connect(cluster.urls) as nc:
        js = nc.jetstream(max_pending=500, timeout=20)
        js.create_stream(name="S", subjects=["s"], num_replicas=3)
        with Load(js, "s", burst=300, patience=PATIENCE) as load:
            for _ in range(STEPS):
                load.grow(STEP, timeout=90)
                js.step_down_stream_leader("S")
            load.grow(STEP, timeout=90)
        found, sequences = contents(js, "S")
        ledger = load.ledger
        ledger.record(record_figure, found, f"{STEPS} elections")
        ledger.compare(found, sequences)
        assert not ledger.not_stored
        assert all(IN_PROCESS in reason for reason in ledger.reasons), ledger.reasons
        record_figure(f"P3 in process for ever, of {ledger.told}", len(ledger.unknown))
        certain = [wait for wait in load.waits if wait.certain]
        assert {wait.kind for wait in certain} == {"sync", "async", "many", "arrow"}
        longest = max(wait.seconds for wait in certain)
        record_figure("P3 longest wait in elections", longest, "s", goal=f"<= {STALL:g} s")
        assert longest <= STALL, [wait for wait in certain if wait.seconds > STALL]


def leader_of(js):
    """The name of the node that leads the stream."""
    while True:
        info = js.stream("S").info()
        if info.cluster is not None and info.cluster.leader:
            return info.cluster.leader
