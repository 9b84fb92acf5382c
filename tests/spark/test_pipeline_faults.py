"""The main job gives every row exactly once, equal to pandas, whatever dies in the middle of it.

The long form (JETSYNC_SOAK=1) runs all 336,776 flights.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import jetsync
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.spark.flights import Job, Pipeline

LOCAL = "local[2,4]"
DYING = Path(__file__).with_name("dying")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(scaled(900, 3600))]


@pytest.fixture
def started():
    """Start jobs; whatever they left running is killed after the test."""
    jobs: list[Job] = []

    def start(*arguments, **environment):
        jobs.append(Job(*arguments, **environment))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end_all()


def test_sink_workers_that_are_killed_after_publishing(tmp_path, fresh_server, started):
    """Every task of the sink dies once, when half of it is stored and Spark knows of nothing."""
    with jetsync.connect(fresh_server.url) as nc:
        pipeline = Pipeline(nc.jetstream(timeout=20))
        job = started(tmp_path, {"servers": fresh_server.url}, LOCAL, PYTHONPATH=str(DYING))
        job.wait_for_success()
        assert "SIGKILL" in job.log() or "crashed" in job.log(), "nothing was killed"
        pipeline.assert_complete(tmp_path)


def test_a_driver_that_is_killed_three_times(tmp_path, fresh_server, started):
    """The whole job dies in the copy and twice in the results; a restart goes on from there."""
    with jetsync.connect(fresh_server.url) as nc:
        pipeline = Pipeline(nc.jetstream(timeout=20))
        for query, batch in (("copy", 2), ("daily", 1), ("daily", 3)):
            job = started(tmp_path, {"servers": fresh_server.url}, LOCAL)
            job.wait_for_batch(query, batch)
            job.end_all()
        started(tmp_path, {"servers": fresh_server.url}, LOCAL).wait_for_success()
        pipeline.assert_complete(tmp_path)


def test_the_leader_of_the_stream_is_killed_and_another_steps_down(
    tmp_path, fresh_cluster, started
):
    """Three servers, three replicas. The killed server comes back before the next one leaves."""
    with jetsync.connect(fresh_cluster.url) as nc:
        js = nc.jetstream(timeout=20)
        pipeline = Pipeline(js, num_replicas=3)
        job = started(tmp_path, {"servers": fresh_cluster.url}, LOCAL)
        job.wait_for_batch("copy", 1)
        killed = fresh_cluster.server(cluster_of(js, "FLIGHTS").leader)
        killed.kill()
        job.wait_for_batch("copy", 3)
        killed.start()
        job.wait_for_batch("daily", 1)
        wait_until(lambda: all_current(js, "FLIGHTS"), timeout=60)
        js.step_down_stream_leader("FLIGHTS")
        job.wait_for_batch("daily", 3)
        wait_until(lambda: all_current(js, "RESULTS"), timeout=60)
        js.step_down_stream_leader("RESULTS")
        job.wait_for_success()
        pipeline.assert_complete(tmp_path)


def cluster_of(js: jetsync.JetStream, name: str) -> jetsync.ClusterInfo:
    cluster = js.stream(name).info().cluster
    assert cluster is not None
    return cluster


def all_current(js: jetsync.JetStream, name: str) -> bool:
    cluster = cluster_of(js, name)
    return bool(cluster.leader) and all(one.current for one in cluster.replicas)
