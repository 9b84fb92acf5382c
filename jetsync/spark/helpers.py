"""Small things for notebooks, UDFs and monitoring."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jetsync.spark.connection import link_of, shared, with_patience
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.offsets import Offset
from jetsync.spark.options import LinkOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jetsync import Connection, KeyValue

__all__ = ["kv", "lag", "register"]


def register(spark: SparkSession) -> None:
    """Make ``format("jetstream")`` known to a session.

    Not needed where the package is installed in the Python environment of the driver: Spark finds
    it there by itself. Does not connect to any server.
    """
    from jetsync.spark import JetStreamDataSource

    spark.dataSource.register(JetStreamDataSource)


def lag(query: Any) -> dict[str, dict[str, int]]:
    """Return how far a streaming query is behind: ``{stream: {latest, end, behind}}``.

    Takes a running or ended ``StreamingQuery``, or one progress of it (object or mapping). Counts
    sequences, as of the last progress; empty before the first one. Does not connect.
    """
    progress = getattr(query, "lastProgress", query)
    found: dict[str, dict[str, int]] = {}
    for source in _field(progress, "sources") or ():
        end, latest = _offset(_field(source, "endOffset")), _offset(_field(source, "latestOffset"))
        if end is None:
            continue
        for stream, mark in end.marks.items():
            newest = latest.marks.get(stream) if latest is not None else None
            head = max(mark.seq, newest.seq if newest is not None else 0)
            found[stream] = {"latest": head, "end": mark.seq, "behind": head - mark.seq}
    return found


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def _offset(value: Any) -> Offset | None:
    """Read an offset out of a progress; None if it belongs to another kind of source."""
    try:
        return Offset.from_dict(json.loads(value) if isinstance(value, str) else value)
    except (SparkSourceError, ValueError):
        return None


def kv(bucket: str, options: Mapping[str, str] | None = None) -> KeyValue:
    """Return a key-value bucket on this process's shared connection.

    Cheap to call for every row: the bucket is looked up once per Python worker. Takes the
    connection options of the ``jetstream`` format. Blocks when it has to connect or look up; raises
    BucketNotFoundError, ``SparkSourceError`` if no server answers in time. Thread-safe. Each
    ``get`` of the bucket is a round trip, so prefer ``mapInArrow`` with one ``get`` per key.
    """
    link = link_of(options)
    nc, found = _buckets.get((bucket, link), (None, None))
    # A connection that was closed, or inherited by a fork, is another one than the shared one.
    if found is None or nc is not shared(link):
        found = with_patience(link, f"opening bucket {bucket}", lambda js: js.key_value(bucket))
        _buckets[bucket, link] = shared(link), found
    return found


_buckets: dict[tuple[str, LinkOptions], tuple[Connection | None, KeyValue | None]] = {}
