"""Running a program that starts a Spark of its own, small and on 127.0.0.1 only."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.cli.demo_process import Running
from tests.harness.places import ROOT, SEARCH_PATH
from tests.harness.waiting import wait_until
from tests.spark import quick_start

__all__ = ["ROOT", "defaults_in", "run_program"]

# A machine with much else to do takes minutes to start Spark.
PATIENCE = 500.0

_DEFAULTS = """\
spark.ui.enabled false
spark.ui.showConsoleProgress false
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.sql.shuffle.partitions 2
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""


def defaults_in(folder: Path) -> dict[str, str]:
    """Write settings for a small Spark; return the environment of a program that has them."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in quick_start.SETTINGS.items()]
    (folder / "spark-defaults.conf").write_text(_DEFAULTS + "".join(lines))
    return {"SPARK_CONF_DIR": str(folder), "OPENBLAS_NUM_THREADS": "1"}


def run_program(folder: Path, *arguments: str) -> str:
    """Run ``python ARGUMENTS`` to its end, in good order, and return what it printed."""
    given = defaults_in(folder)
    paths = [SEARCH_PATH, os.environ.get("PYTHONPATH", "")]
    running = Running(
        folder,
        *arguments,
        PYTHONPATH=os.pathsep.join(filter(None, paths)),
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
        **given,
    )
    try:
        wait_until(lambda: running._process.poll() is not None, timeout=PATIENCE)
        ended = running.end()
        assert ended.code == 0, ended.err
        running.wait_until_gone()
        return ended.out
    finally:
        running.end_all()
