"""A process that reads keeps the memory of its batches for the next ones."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from tests.harness.places import ROOT

ROWS = 40_000
PROGRAM = """
import resource, sys
from pyspark.sql.types import StructType
from jetsync.spark.datasource import JetStreamDataSource
url, stream = sys.argv[1:]
options = {"servers": url, "stream": stream, "readMethod": "consumer"}
options["maxRecordsPerPartition"] = "40000"
reader = JetStreamDataSource(options).reader(StructType().add("seq", "long").add("data", "binary"))
(part,) = reader.partitions()
for number in range(6):
    if number == 2:  # by then there is what is kept
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    rows = sum(batch.num_rows for batch in reader.read(part))
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
@pytest.mark.parametrize("own", [False, True], ids=["kept", "the user's own setting"])
def test_reading_again_asks_the_system_for_little_memory(js, new_stream, own):
    """Each 4 KiB that was given back and is asked for again would be a page fault."""
    stream = new_stream()
    payload = bytes(128)
    rows = ((f"{stream.name}.x", payload) for _ in range(ROWS))
    js.publish_many(rows, msg_id=None).raise_for_failed()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if own:
        environment["MALLOC_TRIM_THRESHOLD_"] = "131072"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, stream.url, stream.name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    read, faults = map(int, done.stdout.split())
    assert read == ROWS
    assert (faults > 4 * ROWS // 100) == own
