"""A process that reads keeps the memory of its batches for the next ones."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

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


def faults(url, stream, **environment):
    """Return how many pages of memory the system gave a process that reads again and again."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, stream],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    read, found = map(int, done.stdout.split())
    assert read == ROWS
    return found


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's; elsewhere nothing is set"
)
def test_reading_again_asks_the_system_for_little_memory(js, new_stream):
    """Each 4 KiB that was given back and is asked for again would be a page fault. A setting of the
    user's own counts."""
    stream = new_stream()
    payload = bytes(128)
    rows = ((f"{stream.name}.x", payload) for _ in range(ROWS))
    js.publish_many(rows, msg_id=None).raise_for_failed()
    kept = faults(stream.url, stream.name)
    given_back = faults(stream.url, stream.name, MALLOC_TRIM_THRESHOLD_="131072")
    assert kept < given_back / 2
