"""Several executors against several servers, over TLS, with no more permissions than needed.

The operator's page shows the configuration; it is the one used here.
"""

from __future__ import annotations

import re

import pytest

import jetsync
from jetsync.server import NatsCluster
from tests.harness.soak import scaled
from tests.spark.flights import Job, Pipeline
from tests.spark.programs import ROOT

PAGE = ROOT / "docs/guide/spark-operating.md"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(scaled(900, 3600))]


def page_config() -> str:
    found = re.search(r"```text\n(accounts .*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def guarded_cluster(certificates):
    tls = f"tls {{ cert_file: {certificates.server}, key_file: {certificates.server_key} }}\n"
    with NatsCluster(3, config=tls + page_config()) as three:
        yield three


def test_an_executor_that_is_killed_over_tls_with_narrow_permissions(
    tmp_path, guarded_cluster, certificates
):
    """Two executor processes, three servers, three replicas; one executor dies in each query."""
    urls = guarded_cluster.url
    tls = jetsync.TLSConfig(ca_file=certificates.ca)
    with jetsync.connect(urls, tls=tls, user="admin", password="admin-secret") as nc:
        pipeline = Pipeline(nc.jetstream(timeout=20), num_replicas=3)
        link = {
            "servers": urls,
            "tlsCa": str(certificates.ca),
            "user": "spark",
            "passwordEnv": "SPARK_TEST_PASSWORD",
        }
        job = Job(tmp_path, link, "local-cluster[2,1,1024]", SPARK_TEST_PASSWORD="spark-secret")
        try:
            for query in ("copy", "daily"):
                job.wait_for_batch(query, 1)
                job.kill_one("CoarseGrainedExecutorBackend")
            job.wait_for_success()
        finally:
            job.end_all()
        pipeline.assert_complete(tmp_path)
