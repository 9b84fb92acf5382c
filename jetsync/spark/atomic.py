"""Option ``atomic=chunk``: rows stored a chunk at a time, each as a whole or not at all.

A batch of the server's has up to 1,000 messages; with another number of rows in it, it says nothing
about a Spark partition or batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jetsync.errors import (
    BatchPublishError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync import JetStream

__all__ = ["MOST_ROWS", "chunks", "has_stored_rows", "store_chunk"]

MOST_ROWS = 1_000
CONTAINS_DUPLICATE = 10201


def chunks(rows: pa.RecordBatch, starts: list[int]) -> Iterator[pa.RecordBatch]:
    """Cut rows into chunks; a row of ``starts`` is the first of one.

    (The server looks at an expected last sequence only on the first message of a batch.)
    """
    edges = [0, *(row for row in starts if row), rows.num_rows]
    for first, last in itertools.pairwise(edges):
        for at in range(first, last, MOST_ROWS):
            yield rows.slice(at, min(MOST_ROWS, last - at))


def store_chunk(
    js: JetStream, rows: pa.RecordBatch, subject: str | None, stream: str | None, timeout: float
) -> int:
    """Store a chunk and return its first sequence. Blocks; raises like ``PublishBatch.commit``."""
    names = rows.schema.names
    batch = js.batch(timeout=timeout)
    batch.add_arrow(
        rows,
        subject="subject" if subject is None else subject,
        headers="headers" if "headers" in names else None,
        msg_id="msg_id" if "msg_id" in names else None,
        expected_stream=stream,
    )
    return batch.commit().seq - int(rows.num_rows) + 1


def has_stored_rows(error: BaseException) -> bool:
    """Tell whether a chunk was refused because one of its rows is in the stream already."""
    cause = error.__cause__ if not isinstance(error, BatchPublishError) else error
    return isinstance(cause, BatchPublishError) and cause.err_code == CONTAINS_DUPLICATE
