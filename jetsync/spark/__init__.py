"""jetsync.spark - JetStream streams as Spark tables: a source and a sink, batch and streaming.

Room:      L6. May import: kv, jetstream, client, hallway, and pyspark and pyarrow. May not:
           objectstore, cli, server.
Threads:   one per range being read, which gets the next batch while Spark takes the last one; one
           shared connection per Python worker process.
Touch me:  to change options, offsets, partitions, how a range is read, how rows are published.
Not here:  pull requests, acknowledgements and reconnecting (jetstream/, client/).

Importing this package needs neither pyspark nor pyarrow; using it needs ``jetsync[spark]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetsync.spark.connection import connection
from jetsync.spark.errors import SparkOptionError, SparkSourceError, reason
from jetsync.spark.foreach import TaskPublisher, publish_partition, publisher
from jetsync.spark.helpers import kv, lag, register, release
from jetsync.spark.key_values import kv_lookup
from jetsync.spark.work_queue import consume_partition

if TYPE_CHECKING:
    from jetsync.spark.datasource import JetStreamDataSource
    from jetsync.spark.monitoring import LagListener

__all__ = [
    "JetStreamDataSource",
    "LagListener",
    "SparkOptionError",
    "SparkSourceError",
    "TaskPublisher",
    "connection",
    "consume_partition",
    "kv",
    "kv_lookup",
    "lag",
    "publish_partition",
    "publisher",
    "reason",
    "register",
    "release",
]


def __getattr__(name: str) -> Any:
    """Load the classes that need pyspark only when they are asked for."""
    if name == "JetStreamDataSource":
        import pyspark

        from jetsync.spark.versions import check_version

        check_version(pyspark.__version__)
        from jetsync.spark.datasource import JetStreamDataSource

        return JetStreamDataSource
    if name == "LagListener":
        from jetsync.spark.monitoring import LagListener

        return LagListener
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
