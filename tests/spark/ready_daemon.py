"""Spark's daemon of Python workers with their imports done: a worker is a fork that begins at once.

Each worker would import pyarrow for half a second of CPU, and tests start hundreds. What is under
test, jetsync, is imported by each worker as everywhere.
"""

from __future__ import annotations

import contextlib
import importlib

_IMPORTS = (
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
)


def main() -> None:
    for name in _IMPORTS:
        with contextlib.suppress(ImportError):  # another version of Spark
            importlib.import_module(name)
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
