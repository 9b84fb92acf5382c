"""Message ids, by which the server recognises a row that Spark publishes again.

A failed task is run again, and after a shuffle its rows may come in another order. So the default
id is made of the content: query, batch, partition, a hash of the row, and how many rows with that
hash came before (``jetsync/jetstream/publish/content_ids.py``). That still depends on which rows a
partition has; an id of the position at which a row's message was read depends on nothing else.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from jetsync._log import Log
from jetsync.jetstream.publish.content_ids import ContentIds

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LoggedContentIds", "PositionIds", "SourceIds", "short_hash"]

log: Log = Log("jetsync.spark")


def short_hash(text: str) -> str:
    """Return 12 hexadecimal digits that stand for a query or job id."""
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


class PositionIds:
    """Ids by row number for one task: cheaper, but only right if the order is always the same."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._next = 0

    def column(self, batch: pa.RecordBatch, subject: str | None) -> pa.Array:
        """Return one id per row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        first = self._next
        self._next += batch.num_rows
        numbers = pa.array(range(first, self._next), pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(self._prefix, numbers, ".")


class LoggedContentIds:
    """Ids by content for one task; says once when it had to forget the rows it has seen."""

    def __init__(self, prefix: str, rows: int) -> None:
        self._ids = ContentIds(prefix, rows)
        self._left = rows

    def column(self, batch: pa.RecordBatch, subject: str | None) -> pa.Array:
        """Return one id per row."""
        before, self._left = self._left, self._left - batch.num_rows
        if self._left < 0 <= before:
            log.warning(
                "a task publishes more rows than contentIdRows: if more than that are different, "
                "a repeated task whose rows come in another order may store rows twice; use more "
                "partitions, a larger contentIdRows, or dedup=source or column"
            )
        return self._ids.column(batch, subject)


class SourceIds:
    """Ids by the position of the message that a row was made of, and the row's content.

    The same row of the same message has the same id, whatever query, batch, partition or order it
    comes in. Rows of one message that are equal to each other have one id.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def column(self, batch: pa.RecordBatch, subject: str | None) -> pa.Array:
        """Return one id per row of a batch with columns ``stream`` and ``seq``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        # Made anew for each batch: only the hash counts, not how often it was met.
        counted = ContentIds("c", batch.num_rows + 1).column(batch, subject)
        hashes = pc.replace_substring_regex(counted, r"^c\.([^.]+)\..*$", r"\1")
        parts = [
            batch.column("stream").cast(pa.large_string()),
            batch.column("seq").cast(pa.large_string()),
            hashes,
        ]
        if self._name:
            parts.insert(0, pa.scalar(self._name, pa.large_string()))
        return pc.binary_join_element_wise(*parts, pa.scalar("/", pa.large_string()))
