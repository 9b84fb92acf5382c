"""Every supported line of PySpark reads and writes alike, each installed by itself.

The long form only: each version is a download of 450 MB and starts a Spark of its own, about 40 s
of CPU each. What every commit runs is the newest, on which all other tests here stand; what the
older ones lack is tried without Spark in ``tests/spark/test_older.py``.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.soak import SOAKING
from tests.spark.programs import run_program

VERSIONS = ("4.0.5", "4.1.4", "4.2.1")
"""A release of each older line; the newest line is that of this environment."""

CHECKS = ("batch_read", "batch_write", "stream_to_stream", "foreach_batch", "sql")
FOLDER = Path(sys.prefix) / "pysparks"
INSTALL_WITHIN = 900.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(not SOAKING, reason="make soak; each commit runs the newest"),
]


def installed(version: str) -> Path:
    """Return the folder that has this PySpark; the first call of an environment installs it."""
    folder = FOLDER / version
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / f"{version}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            made = FOLDER / f"{version}.new"
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input"]
            wanted = ["--disable-pip-version-check", "--upgrade", "--target", str(made)]
            subprocess.run(
                [*pip, *wanted, f"pyspark=={version}"], check=True, timeout=INSTALL_WITHIN
            )
            made.rename(folder)
    return folder


@pytest.mark.parametrize("version", [*VERSIONS, "newest"])
def test_each_version_reads_and_writes_what_pandas_expects(
    tmp_path, fresh_server, record_figure, monkeypatch, version
):
    """Batches, a streaming copy over restarts and a repeated batch, foreachBatch, SQL."""
    if version != "newest":
        before = os.environ.get("PYTHONPATH")
        places = [str(installed(version)), *([before] if before else [])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
    said = run_program(
        tmp_path, "-m", "tests.spark.version_job", fresh_server.url, str(tmp_path / "work")
    )
    lines = said.split("\n")[:-1]
    found = lines[0].partition(" ")[0]
    assert version in (found, "newest")
    assert lines == [f"{found} {check}: equal" for check in CHECKS]
    record_figure(f"G40 PySpark {found}", len(lines), f"of {len(CHECKS)}", goal="all")
