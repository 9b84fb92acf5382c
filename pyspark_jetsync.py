"""Where Spark finds ``format("jetstream")``: it imports every top-level ``pyspark_*`` module.

Spark hides a failing import of such a module, and the user would only read that there is no such
format. So if jetsync cannot be imported here, the format is still there and says why when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]

if TYPE_CHECKING:
    from jetsync.spark.datasource import JetStreamDataSource as DefaultSource
else:
    try:
        from jetsync.spark.datasource import JetStreamDataSource as DefaultSource
    except Exception as error:  # noqa: BLE001  whatever it is, the user must read it
        _why = f"{type(error).__name__}: {error}"

        class DefaultSource(DataSource):
            """Stands in for the real source and tells why there is none."""

            @classmethod
            def name(cls):
                """Return the name of the format."""
                return "jetstream"

            def _refuse(self, *args, **kwargs):
                raise ImportError(
                    f"[JETSYNC_DEPENDENCY] jetsync cannot be used by this Python: {_why}. Install "
                    "it with pip install 'jetsync[spark]' on the driver and on every executor"
                )

            schema = reader = streamReader = writer = streamWriter = _refuse
