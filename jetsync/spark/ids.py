"""Message ids by which the server recognises a row that Spark publishes again.

A failed task is run again, and after a shuffle its rows may come in another order. So the default
id is made of the content: query, batch, partition, a hash of the row, and how many rows with that
hash came before (``jetsync/jetstream/publish/content_ids.py``).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PositionIds", "short_hash"]


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
