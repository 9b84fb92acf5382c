"""The main job gives every row exactly once, equal to pandas, whatever dies in the middle of it.

Every commit runs one job in which all of it happens, on few flights. The long form (JETSYNC_SOAK=1)
runs all 336,776 flights, and each fault by itself and oftener.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsCluster
from tests.harness.soak import SOAKING, scaled
from tests.harness.waiting import wait_until
from tests.spark.flights import Job, Pipeline
from tests.spark.programs import ROOT

LOCAL = "local[2,4]"
DYING = Path(__file__).with_name("dying")
PAGE = ROOT / "docs/guide/spark-operating.md"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(scaled(900, 3600))]
long_form = pytest.mark.skipif(not SOAKING, reason="make soak; each commit has the test above")


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


def page_config() -> str:
    """The accounts that the operator's page shows."""
    found = re.search(r"```text\n(accounts .*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def guarded_cluster(certificates):
    """Three servers that want TLS and allow Spark's user what it needs, and no more."""
    tls = f"tls {{ cert_file: {certificates.server}, key_file: {certificates.server_key} }}\n"
    with NatsCluster(3, config=tls + page_config()) as three:
        yield three


@pytest.fixture
def admin(guarded_cluster, certificates):
    tls = jetsync.TLSConfig(ca_file=certificates.ca)
    with jetsync.connect(guarded_cluster.url, tls=tls, user="admin", password="admin-secret") as nc:
        yield nc.jetstream(timeout=20)


@pytest.fixture
def link(guarded_cluster, certificates):
    """How Spark's user reaches the servers."""
    return {
        "servers": guarded_cluster.url,
        "tlsCa": str(certificates.ca),
        "user": "spark",
        "passwordEnv": "SPARK_TEST_PASSWORD",
    }


SECRET = {"SPARK_TEST_PASSWORD": "spark-secret"}


def test_a_leader_the_driver_and_every_task_of_the_sink_die(
    tmp_path, guarded_cluster, admin, link, started
):
    """Over TLS, with no more permissions than needed, on three replicas."""
    pipeline = Pipeline(admin, num_replicas=3)
    job = started(tmp_path, link, LOCAL, **SECRET)
    job.wait_for_batch("copy", 1)
    killed = guarded_cluster.server(cluster_of(admin, "FLIGHTS").leader)
    killed.kill()
    job.wait_for_batch("copy", 2)
    job.end_all()
    killed.start()
    job = started(tmp_path, link, LOCAL, PYTHONPATH=str(DYING), **SECRET)
    job.wait_for_batch("daily", 1)
    wait_until(lambda: all_current(admin, "RESULTS"), timeout=60)
    admin.step_down_stream_leader("RESULTS")
    job.wait_for_success()
    assert "SIGKILL" in job.log() or "crashed" in job.log(), "no task was killed"
    pipeline.assert_complete(tmp_path)


@long_form
def test_sink_workers_that_are_killed_after_publishing(tmp_path, fresh_server, started):
    """Every task of the sink dies once, when half of it is stored and Spark knows of nothing."""
    with jetsync.connect(fresh_server.url) as nc:
        pipeline = Pipeline(nc.jetstream(timeout=20))
        job = started(tmp_path, {"servers": fresh_server.url}, LOCAL, PYTHONPATH=str(DYING))
        job.wait_for_success()
        assert "SIGKILL" in job.log() or "crashed" in job.log(), "nothing was killed"
        pipeline.assert_complete(tmp_path)


@long_form
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


@long_form
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


@long_form
def test_an_executor_that_is_killed_in_each_query(tmp_path, admin, link, started):
    """Two executor processes, three servers, three replicas."""
    pipeline = Pipeline(admin, num_replicas=3)
    job = started(tmp_path, link, "local-cluster[2,1,1024]", **SECRET)
    for query in ("copy", "daily"):
        job.wait_for_batch(query, 1)
        job.kill_one("CoarseGrainedExecutorBackend")
    job.wait_for_success()
    pipeline.assert_complete(tmp_path)


def cluster_of(js: jetsync.JetStream, name: str) -> jetsync.ClusterInfo:
    cluster = js.stream(name).info().cluster
    assert cluster is not None
    return cluster


def all_current(js: jetsync.JetStream, name: str) -> bool:
    cluster = cluster_of(js, name)
    return bool(cluster.leader) and all(one.current for one in cluster.replicas)
