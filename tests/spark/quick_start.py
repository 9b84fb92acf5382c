"""What lets Spark's Python processes start quickly: with a quarter of the CPU.

Spark puts a zip file with the sources of pyspark first on their path, and each process compiles
what it imports from there, which takes a second. Where ``SPARK_HOME`` has no such file they find
the installed pyspark, which is compiled. And the workers of tasks are forks of a daemon that has
imported everything before (``ready_daemon.py``).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

__all__ = ["SETTINGS", "environment"]

SETTINGS = {"spark.python.daemon.module": "tests.spark.ready_daemon"}
"""Settings of a session; its path has to have the tests."""


def environment() -> dict[str, str]:
    """Return the environment in which a session of the installed pyspark is to be started."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent
    home = Path(sys.prefix) / "spark-home" / importlib.metadata.version("pyspark")
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        with contextlib.suppress(FileExistsError):
            (home / name).symlink_to(folder / name)
    # A process that forks may have no threads; numpy would start some.
    return {"SPARK_HOME": str(home), "OPENBLAS_NUM_THREADS": "1"}
