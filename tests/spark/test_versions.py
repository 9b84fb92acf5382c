"""Every supported line of PySpark passes the suite and a program of its own.

The long form only: each version is a download of 450 MB and starts a Spark of its own, about 40 s
of CPU for the program and ten minutes for the suite. What every commit runs is the newest, on which
all other tests here stand; what the older ones lack is tried without Spark in
``tests/spark/test_older.py``.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.harness.places import ROOT
from tests.harness.soak import ENVIRONMENT_VARIABLE, SOAKING
from tests.spark.programs import run_program

VERSIONS = ("4.0.5", "4.1.4", "4.2.1")
"""A release of each older line; the newest line is that of this environment."""

CHECKS = ("batch_read", "batch_write", "stream_to_stream", "foreach_batch", "sql")
SUITE = (
    "batch_read",
    "choosing",
    "datasource",
    "destinations",
    "helpers",
    "key_values",
    "mirrors",
    "on_commit",
    "option_table",
    "pushdown",
    "reader",
    "requests",
    "schema",
    "settings",
    "sink",
    "skipping",
    "stream_reader",
    "stream_reader_rules",
    "streaming_read",
    "writer",
)
"""The files of tests that run on the older lines: those that Spark itself, or its API, is part of.
What a line lacks skips its tests with the reason."""
FOLDER = Path(sys.prefix) / "pysparks"
INSTALL_WITHIN = 900.0
SUITE_WITHIN = 3600.0
LEAST_PASSED = 200

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(4600),
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


def path_with(version: str) -> str:
    """Return a value for PYTHONPATH with this PySpark first."""
    return os.pathsep.join(filter(None, [str(installed(version)), os.environ.get("PYTHONPATH")]))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_suite_passes_on_each_older_version(tmp_path, record_figure, version):
    files = [str(ROOT / f"tests/spark/test_{name}.py") for name in SUITE]
    report = tmp_path / "report.xml"
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        f"--basetemp={tmp_path / 't'}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=ROOT,
        # The form of each commit: the long one is for the newest line.
        env={**os.environ, "PYTHONPATH": path_with(version), ENVIRONMENT_VARIABLE: "0"},
        capture_output=True,
        text=True,
        timeout=SUITE_WITHIN,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    (suite,) = ElementTree.parse(report).getroot()
    passed = int(suite.attrib["tests"]) - int(suite.attrib["skipped"])
    assert passed > LEAST_PASSED
    record_figure(f"G40 suite on PySpark {version}", passed, f"of {suite.attrib['tests']} tests")


@pytest.mark.parametrize("version", [*VERSIONS, "newest"])
def test_each_version_reads_and_writes_what_pandas_expects(
    tmp_path, fresh_server, record_figure, monkeypatch, version
):
    """Batches, a streaming copy over restarts and a repeated batch, foreachBatch, SQL."""
    if version != "newest":
        monkeypatch.setenv("PYTHONPATH", path_with(version))
    said = run_program(
        tmp_path, "-m", "tests.spark.version_job", fresh_server.url, str(tmp_path / "work")
    )
    lines = said.split("\n")[:-1]
    found = lines[0].partition(" ")[0]
    assert version in (found, "newest")
    assert lines == [f"{found} {check}: equal" for check in CHECKS]
    record_figure(f"G40 PySpark {found}", len(lines), f"of {len(CHECKS)}", goal="all")
