"""The format works through Spark Connect, where the driver is another process."""

from __future__ import annotations

import pytest

import jetsync
from tests.harness.soak import SOAKING
from tests.spark.programs import run_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not SOAKING, reason="make soak; each commit has Spark without Connect"),
]


def test_reading_and_writing_through_spark_connect(tmp_path, fresh_server):
    with jetsync.connect(fresh_server.url) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="SOURCE", subjects=["source"])
        js.create_stream(name="TARGET", subjects=["TARGET.>"])
        js.publish_many([("source", b"%d" % i) for i in range(500)]).raise_for_failed()
        said = run_program(
            tmp_path,
            *("-m", "tests.spark.connect_job", fresh_server.url),
            *("SOURCE", "TARGET", str(tmp_path / "checkpoint")),
        )
        assert said.split() == ["pyspark.sql.connect.dataframe", "500", "500"]
        # Once by the batch job and once by the streaming query: two jobs, so two sets of ids.
        state = js.stream("TARGET").info().state
        assert state.messages == 1000
