"""The memory of a Python worker: how much it needs, and that it keeps what it has freed."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from jetsync.spark import connection
from tests.harness.places import SEARCH_PATH

PAGE = (Path(__file__).parents[2] / "docs/guide/spark-clusters.md").read_text()
MIB = 1 << 20
ROWS = 40_000

on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads /proc; test_range_read.py reads everywhere"
)

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


def numbers(program, *arguments, **environment):
    """Run a program in a process of its own; return the numbers that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split())


def faults(url, stream, **environment):
    """Return how many pages of memory the system gave a process that reads again and again."""
    read, found = numbers(PROGRAM, url, stream, **environment)
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


def resident():
    """Return how many bytes of memory this process has, and had at most."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return [int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")]


def measured(batches, url):
    with connection({"servers": url}) as nc:
        nc.flush(10)
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"bytes": [resident()[1]]})


@on_linux
def test_a_python_worker_with_a_connection_needs_what_the_page_says(spark, server):
    (said,) = re.findall(r"up to (\d+) MB with pyarrow", PAGE)
    url = server.url
    frame = spark.range(1, numPartitions=1)
    (row,) = frame.mapInArrow(lambda batches: measured(batches, url), "bytes bigint").collect()
    assert row.bytes <= int(said) * 1_000_000


LARGE = """
import sys
from pathlib import Path
from pyspark.sql.types import StructType
from jetsync.spark.datasource import JetStreamDataSource
from tests.spark.test_memory import resident
url, stream, size = sys.argv[1:]
schema = StructType().add("subject", "string").add("seq", "long").add("data", "binary")
options = {"servers": url, "stream": stream, "readMethod": "consumer", "fetchMaxBytes": size}
few = JetStreamDataSource({**options, "endingOffsets": "100"}).reader(schema)
rows = sum(batch.num_rows for part in few.partitions() for batch in few.read(part))
assert rows == 100
Path("/proc/self/clear_refs").write_text("5")  # from now on the largest counts
before = resident()[1]
reader = JetStreamDataSource({**options, "maxRecordsPerPartition": "1000000"}).reader(schema)
(part,) = reader.partitions()
print(sum(batch.num_rows for batch in reader.read(part)), resident()[1] - before)
"""


@on_linux
def test_a_read_needs_five_times_the_bytes_of_a_request_at_most(js, new_stream):
    """Whatever the stream holds, here eight times as much as one request brings: messages on their
    way, those that are converted, their columns and those that Spark works on."""
    assert re.search(r"up to five times `fetchMaxBytes`\s+\(`16MiB`\) and 10 MiB", PAGE)
    stream, size = new_stream(), 8 * MIB
    payload = bytes(4096)
    count = 8 * size // len(payload)
    rows = ((f"{stream.name}.x", payload) for _ in range(count))
    js.publish_many(rows, msg_id=None).raise_for_failed()
    read, needed = numbers(LARGE, stream.url, stream.name, str(size), PYTHONPATH=SEARCH_PATH)
    assert read == count
    assert needed <= 5 * size + 10 * MIB
