"""Small things for notebooks, UDFs and monitoring."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jetsync.spark import releasing
from jetsync.spark.connection import link_of, shared, with_patience
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.offsets import Offset, StreamOffset
from jetsync.spark.options import LinkOptions
from jetsync.spark.read_options import NONE, ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jetsync import Connection, JetStream, KeyValue

__all__ = ["kv", "lag", "register", "release"]


def register(spark: SparkSession) -> None:
    """Make ``format("jetstream")`` known to a session.

    Not needed where the package is installed in the Python environment of the driver: Spark finds
    it there by itself. Does not connect to any server.
    """
    from pyspark.errors import AnalysisException

    from jetsync.spark import JetStreamDataSource

    try:
        spark.dataSource.register(JetStreamDataSource)
    except AnalysisException as error:
        # Spark 4.0 takes a name once, and may have found the format by itself before.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def lag(query: Any) -> dict[str, dict[str, int]]:
    """Return how far a streaming query is behind: ``{stream: {latest, end, behind}}``.

    Takes a running or ended ``StreamingQuery``, or one progress of it (object or mapping). Counts
    sequences, as of the last progress; empty before the first one. A stream that the query reads
    no more, which its checkpoint keeps, is left out. Does not connect.
    """
    progress = getattr(query, "lastProgress", query)
    found: dict[str, dict[str, int]] = {}
    for source in _field(progress, "sources") or ():
        end, latest = _offset(_field(source, "endOffset")), _offset(_field(source, "latestOffset"))
        if end is None:
            continue
        for stream, reached in end.streams.items():
            newest = reached if latest is None else latest.streams.get(stream)
            if newest is None:  # its head was not looked at
                continue
            head = max(reached.seq, newest.seq)
            found[stream] = {"latest": head, "end": reached.seq, "behind": head - reached.seq}
    return found


def release(query: Any, options: Mapping[str, str]) -> dict[str, int]:
    """Release what a query has finished with, its last batch too, as its ``onCommit`` says.

    Spark tells a source the end of a batch when it plans the next one, so a run that ends
    (AvailableNow) leaves its last batch in a work queue, or held by its anchor, until the next run.
    ``query`` is the ``StreamingQuery`` or one progress of it, ``options`` those of its source. Does
    nothing before the first batch has ended; may be repeated. Returns the last sequence that was
    released, by stream. Blocks; raises ``SparkOptionError`` and ``SparkSourceError``.
    """
    checked = ReadOptions.parse(dict(options), streaming=True)
    progress = getattr(query, "lastProgress", query)
    released: dict[str, int] = {}
    for source in _field(progress, "sources") or ():
        end = _offset(_field(source, "endOffset"))
        for stream, reached in end.streams.items() if end is not None else ():
            if checked.on_commit == NONE or (checked.streams and stream not in checked.streams):
                continue
            with_patience(
                checked.link,
                f"releasing {stream} up to {reached.seq}",
                functools.partial(_release, stream, reached, checked),
            )
            released[stream] = reached.seq
    return released


def _release(stream: str, reached: StreamOffset, options: ReadOptions, js: JetStream) -> None:
    releasing.release(js, stream, reached, options)


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
    ``get`` of the bucket is a round trip, so prefer ``kv_lookup`` in ``mapInArrow``.
    """
    link = link_of(options)
    nc, found = _buckets.get((bucket, link), (None, None))
    # A connection that was closed, or inherited by a fork, is another one than the shared one.
    if found is None or nc is not shared(link):
        found = with_patience(link, f"opening bucket {bucket}", lambda js: js.key_value(bucket))
        _buckets[bucket, link] = shared(link), found
    return found


_buckets: dict[tuple[str, LinkOptions], tuple[Connection | None, KeyValue | None]] = {}
