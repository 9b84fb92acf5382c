"""The format is source and sink of declarative pipelines, run by Spark's own program for them."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

import jetsync
from tests.harness.soak import SOAKING
from tests.spark.programs import run_program

PROGRAM = Path(pyspark.__file__).parent / "bin/spark-class"

SPEC = """\
name: copies
storage: file://{folder}/storage
libraries:
  - glob:
      include: definitions/**
"""

DEFINITIONS = """\
from pyspark import pipelines
from pyspark.sql import SparkSession

spark = SparkSession.active()
pipelines.create_sink(
    "copies", "jetstream", {{"servers": "{url}", "publishStream": "TARGET", "queryId": "copies"}}
)


@pipelines.table
def received():
    where = {{"servers": "{url}", "stream": "SOURCE", "columns": "seq,data"}}
    return spark.readStream.format("jetstream").options(**where).load()


@pipelines.append_flow(target="copies")
def copied():
    return spark.readStream.table("received").selectExpr("'target.copy' as subject", "data")
"""

COUNT = 100

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not SOAKING, reason="make soak; each commit reads and writes apart"),
]


def test_a_pipeline_reads_a_stream_and_writes_another(tmp_path, fresh_server):
    """By a table that is kept up, and a flow from there into the sink."""
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path))
    (tmp_path / "definitions").mkdir()
    program = DEFINITIONS.format(url=fresh_server.url)
    (tmp_path / "definitions" / "copy.py").write_text(program)
    with jetsync.connect(fresh_server.url) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="SOURCE", subjects=["source"])
        js.create_stream(name="TARGET", subjects=["target.>"], allow_direct=True)
        rows = [("source", b"%d" % n) for n in range(COUNT)]
        js.publish_many(rows, msg_id=None).raise_for_failed()
        run_pipeline(tmp_path)
        found = js.stream("TARGET").get_msgs(1, max_messages=1000)
        assert sorted(int(bytes(message.data)) for message in found) == list(range(COUNT))


def run_pipeline(folder: Path) -> None:
    """What the program spark-pipelines does, with the Python of the tests."""
    line = [str(PROGRAM), "org.apache.spark.deploy.SparkPipelines"]
    line += [str(Path(pyspark.__file__).parent / "pipelines/cli.py")]
    line += ["run", "--spec", str(folder / "spark-pipeline.yml")]
    program = f"import os, sys; os.chdir({str(folder)!r}); os.execv(sys.argv[1], sys.argv[1:])"
    run_program(folder, "-c", program, *line)
