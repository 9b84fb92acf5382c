"""Option ``commitMarker``: which micro-batch of a query is published completely.

Spark notes that a batch is done after the sink has said so. A crash in between makes it publish the
batch again at the next start, maybe long after the stream has forgotten the message ids. The
marker, a key of each query in a bucket on the server, tells the repetition that nothing is left.

Numbers of batches mean nothing outside of their checkpoint. So a marker belongs to one checkpoint,
and only the last batch of it can be repeated, with the rows that it had; anything else is an error,
because leaving the batch out would lose rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync._log import Log
from jetsync.errors import BucketNotFoundError, KeyNotFoundError
from jetsync.jetstream.publish.content_ids import digest_rows
from jetsync.spark.connection import with_patience
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.options import LinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync import JetStream, KeyValue

__all__ = [
    "BUCKET",
    "Marker",
    "Size",
    "check_repeated",
    "is_done",
    "make_bucket",
    "mark_done",
    "read_marker",
    "sum_sizes",
]

log: Log = Log("jetsync.spark")

BUCKET = "jetsync_spark"


@dataclass(frozen=True)
class Size:
    """How much a batch has, and of what: tells one that is repeated from another with its number.

    It is the same in whatever order, tasks and Arrow batches the rows come. ``None``: not known.
    """

    rows: int = 0
    data_bytes: int | None = 0
    digest: int | None = 0

    def plus(self, rows: pa.RecordBatch, subject: str | None) -> Size:
        """Return the size with normalised rows added; ``subject`` is the fixed one."""
        import pyarrow.compute as pc

        data = pc.sum(pc.binary_length(rows.column("data"))).as_py() or 0
        return sum_sizes([self, Size(rows.num_rows, data, digest_rows(rows, subject))])

    def is_that_of(self, other: Size) -> bool:
        """Tell whether both are of the same rows, as far as both are known."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return all(a == b or a is None or b is None for a, b in pairs)

    def __str__(self) -> str:
        size = "" if self.data_bytes is None else f" of {counted(self.data_bytes, 'byte')} of data"
        return counted(self.rows, "row") + size


def sum_sizes(sizes: Iterable[Size]) -> Size:
    """Return the size of all parts of a batch together."""
    rows, data_bytes, digest = 0, 0, 0
    for size in sizes:
        rows += size.rows
        data_bytes += size.data_bytes or 0
        digest += size.digest or 0
    return Size(rows, data_bytes, digest % 2**64)


@dataclass(frozen=True)
class Marker:
    """A batch that is published completely. ``checkpoint`` is the id that Spark gave its query."""

    batch_id: int
    checkpoint: str
    size: Size

    def to_json(self) -> bytes:
        """Return what is stored."""
        found = {
            "batchId": self.batch_id,
            "checkpoint": self.checkpoint,
            "rows": self.size.rows,
            "bytes": self.size.data_bytes,
            "digest": self.size.digest,
        }
        return json.dumps(found).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Marker:
        """Read what is stored; ``ValueError``, ``KeyError`` or ``TypeError`` if it is not one."""
        found = json.loads(value)
        # Earlier versions noted no digest, or rows alone.
        data_bytes, digest = found.get("bytes"), found.get("digest")
        return cls(
            int(found["batchId"]),
            str(found.get("checkpoint", "")),
            Size(
                int(found["rows"]),
                None if data_bytes is None else int(data_bytes),
                None if digest is None else int(digest),
            ),
        )


def make_bucket(link: LinkOptions, replicas: int) -> None:
    """Create the bucket if there is none. Blocks. One that exists stays as it is."""

    def make(js: JetStream) -> None:
        try:
            js.key_value(BUCKET)
        except BucketNotFoundError:
            js.create_key_value(bucket=BUCKET, replicas=replicas)

    with_patience(link, f"creating bucket {BUCKET}", make)


def read_marker(link: LinkOptions, query: str) -> Marker | None:
    """Return the marker of a query, None if it has none. Blocks."""
    return with_patience(
        link, f"reading the commit marker of {query}", lambda js: _read(_open(js), query)
    )


def is_done(done: Marker, query: str, checkpoint: str, batch_id: int) -> bool:
    """Tell whether a batch is the one that was published completely last.

    Raises ``JETSYNC_COMMIT_MARKER`` if the marker says that this is another checkpoint, or an older
    state of it. Does not block.
    """
    if done.checkpoint not in ("", checkpoint):
        raise _unfit(
            query,
            "it belongs to another checkpoint, so its numbers say nothing about the batches of "
            "this one",
        )
    if batch_id < done.batch_id:
        raise _unfit(
            query,
            f"it says that batch {done.batch_id} is published, and this is batch {batch_id}: the "
            "checkpoint is an older copy, and its batches may have other rows now",
        )
    return batch_id == done.batch_id


def check_repeated(link: LinkOptions, query: str, now: Marker) -> None:
    """Make sure that a batch that was left out had the rows that were published. Blocks."""
    done = read_marker(link, query)
    if done is None or not done.size.is_that_of(now.size):
        before = "no marker any more" if done is None else str(done.size)
        same = done is not None and str(done.size) == str(now.size)
        raise _unfit(
            query,
            f"batch {now.batch_id} was published with {before} and has "
            f"{'other ones now, as many' if same else f'{now.size} now'}: the checkpoint is an "
            "older copy, or the query does not give the same rows when a batch is repeated",
        )
    log.warning(
        "batch %d of %s was published before with its %s; it is left out",
        now.batch_id,
        query,
        counted(now.size.rows, "row"),
    )


def mark_done(link: LinkOptions, query: str, marker: Marker) -> None:
    """Note that a batch is published completely. Blocks. The marker never moves back."""

    def note(js: JetStream) -> None:
        bucket = _open(js)
        done = _read(bucket, query)
        if done is None or done.batch_id < marker.batch_id:
            bucket.put(_key(query), marker.to_json())

    with_patience(link, f"writing the commit marker of {query}", note)


def _unfit(query: str, why: str) -> SparkSourceError:
    return SparkSourceError(
        f"the commit marker of {query} cannot be used: {why}. Give another queryId, or delete key "
        f"{_key(query)} of bucket {BUCKET} to publish the batch",
        code="JETSYNC_COMMIT_MARKER",
    )


def _key(query: str) -> str:
    return f"spark.{query}"


def _open(js: JetStream) -> KeyValue:
    try:
        return js.key_value(BUCKET)
    except BucketNotFoundError:
        raise SparkSourceError(
            f"bucket {BUCKET}, which holds the commit markers, was deleted; without it a repeated "
            "batch cannot be recognised. Restart the query to make a new one",
            code="JETSYNC_STREAM_NOT_FOUND",
        ) from None


def _read(bucket: KeyValue, query: str) -> Marker | None:
    """Return the last batch that is done. The leader is asked: a replica may be behind."""
    try:
        value = bucket.get(_key(query), direct=False).value
    except KeyNotFoundError:
        return None
    try:
        return Marker.from_json(value)
    except (ValueError, KeyError, TypeError):
        raise SparkSourceError(
            f"key {_key(query)} of bucket {BUCKET} does not hold a commit marker: {value!r}",
            code="JETSYNC_INVALID_OFFSET",
        ) from None
