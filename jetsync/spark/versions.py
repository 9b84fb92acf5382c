"""Differences between versions of PySpark: names that older ones lack.

Python data sources came with Spark 4.0, filters and Arrow writers of streams with 4.1, limits of
micro-batches with 4.2. Everything here is imported from this module, so that the others read alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetsync.spark.errors import SparkOptionError

__all__ = [
    "HAS_ARROW_STREAM_WRITER",
    "HAS_FILTERS",
    "HAS_READ_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "check_version",
]

OLDEST = (4, 0)


def check_version(version: str) -> None:
    """Raise ``JETSYNC_DEPENDENCY`` for a PySpark that has no Python data sources."""
    parts = version.split(".")
    if tuple(int(part) for part in parts[:2] if part.isdigit()) < OLDEST:
        raise SparkOptionError(
            f"PySpark {version} has no Python data sources; jetsync needs PySpark 4.0 or newer",
            code="JETSYNC_DEPENDENCY",
        )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the types, names and nullability that Spark compares Arrow batches with."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # PySpark 4.0 knows no other time zone
        return to_arrow_schema(schema)


if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
    from pyspark.sql.types import StructType

    HAS_READ_LIMITS = HAS_ARROW_STREAM_WRITER = HAS_FILTERS = True
else:
    import pyspark

    check_version(pyspark.__version__)

    from pyspark.sql import datasource as _datasource

    HAS_FILTERS = hasattr(_datasource, "EqualTo")
    HAS_ARROW_STREAM_WRITER = hasattr(_datasource, "DataSourceStreamArrowWriter")
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        HAS_READ_LIMITS = True
    except ImportError:
        HAS_READ_LIMITS = False

        class ReadLimit:
            """Stands in for PySpark's class of this name."""

        @dataclass
        class ReadAllAvailable(ReadLimit):
            """Everything there is."""

        @dataclass
        class ReadMaxRows(ReadLimit):
            """At most so many rows."""

            max_rows: int

        @dataclass
        class ReadMinRows(ReadLimit):
            """At least so many rows."""

            min_rows: int

        @dataclass
        class ReadMaxBytes(ReadLimit):
            """At most so many bytes."""

            max_bytes: int

        class SupportsTriggerAvailableNow:
            """Stands in for PySpark's class of this name."""

    if HAS_ARROW_STREAM_WRITER:
        DataSourceStreamArrowWriter = _datasource.DataSourceStreamArrowWriter
    else:
        DataSourceStreamArrowWriter: Any = _datasource.DataSourceStreamWriter
