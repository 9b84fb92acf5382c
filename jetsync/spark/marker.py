"""Option ``commitMarker``: which micro-batch of a query is published completely.

Spark notes that a batch is done after the sink has said so. A crash in between makes it publish the
batch again at the next start, maybe long after the stream has forgotten the message ids. The
marker, a key of each query in a bucket on the server, tells the repetition that nothing is left.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from jetsync.errors import BucketNotFoundError, KeyNotFoundError
from jetsync.spark.connection import with_patience
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.options import LinkOptions

if TYPE_CHECKING:
    from jetsync import JetStream, KeyValue

__all__ = ["BUCKET", "is_done", "make_bucket", "mark_done"]

log = logging.getLogger("jetsync.spark")

BUCKET = "jetsync_spark"


def make_bucket(link: LinkOptions, replicas: int) -> None:
    """Create the bucket if there is none. Blocks. One that exists stays as it is."""

    def make(js: JetStream) -> None:
        try:
            js.key_value(BUCKET)
        except BucketNotFoundError:
            js.create_key_value(bucket=BUCKET, replicas=replicas)

    with_patience(link, f"creating bucket {BUCKET}", make)


def is_done(link: LinkOptions, query: str, batch_id: int) -> bool:
    """Tell whether a batch was published completely before. Blocks."""

    def ask(js: JetStream) -> bool:
        done = _read(_open(js), query)
        return done is not None and batch_id <= done

    return with_patience(link, f"reading the commit marker of {query}", ask)


def mark_done(link: LinkOptions, query: str, batch_id: int, rows: int) -> None:
    """Note that a batch is published completely. Blocks. The marker never moves back."""

    def note(js: JetStream) -> None:
        bucket = _open(js)
        done = _read(bucket, query)
        if done is None or done < batch_id:
            value = json.dumps({"batchId": batch_id, "rows": rows})
            bucket.put(_key(query), value.encode())

    with_patience(link, f"writing the commit marker of {query}", note)


def _key(query: str) -> str:
    return f"spark.{query}"


def _open(js: JetStream) -> KeyValue:
    try:
        return js.key_value(BUCKET)
    except BucketNotFoundError as error:
        raise SparkSourceError(
            f"bucket {BUCKET}, which holds the commit markers, was deleted; without it a repeated "
            "batch cannot be recognised. Restart the query to make a new one",
            code="JETSYNC_STREAM_NOT_FOUND",
        ) from error


def _read(bucket: KeyValue, query: str) -> int | None:
    """Return the last batch that is done. The leader is asked: a replica may be behind."""
    try:
        value = bucket.get(_key(query), direct=False).value
    except KeyNotFoundError:
        return None
    try:
        return int(json.loads(value)["batchId"])
    except (ValueError, KeyError, TypeError) as error:
        raise SparkSourceError(
            f"key {_key(query)} of bucket {BUCKET} does not hold a commit marker: {value!r}",
            code="JETSYNC_INVALID_OFFSET",
        ) from error
