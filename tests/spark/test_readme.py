"""The README's Spark example runs as it stands; only the address and the folder are others."""

from __future__ import annotations

from jetsync.server import NatsServer
from tests.harness.pages import ADDRESS, python_blocks
from tests.spark.streaming import in_time


def test_the_spark_example_of_the_readme_writes_every_message(spark, tmp_path):
    (code,) = (code for code in python_blocks("README.md") if "pyspark" in code)
    (first, *_) = python_blocks("README.md")
    with NatsServer() as server:
        exec(compile(first.replace(ADDRESS, server.url), "README.md", "exec"), {})
        for there, here in ((ADDRESS, server.url), ('"out', f'"{tmp_path}/out')):
            assert there in code
            code = code.replace(there, here)
        whole = compile(code, "README.md", "exec")
        in_time(lambda: exec(whole, {}))
    assert spark.read.parquet(f"{tmp_path}/out").count() == 100_001
