"""Message ids by which the server recognises a row that Spark publishes again.

A failed task is run again, and after a shuffle its rows may come in another order. So the default
id is made of the content: query, batch, partition, a hash of the row, and how many rows with that
hash came before. It does not depend on the order, and different rows never share one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ContentIds", "PositionIds", "short_hash"]

# Beyond this many different rows the counting starts anew (in a new generation, which is part of
# the id). That bounds memory to about 150 MB per task; the price is that a retry in another order
# of a larger partition may store rows twice. Never does a row get lost.
GENERATION_ROWS = 1_000_000

_DIGEST_BYTES = 12


def short_hash(text: str) -> str:
    """Return 12 hexadecimal digits that stand for a query or job id."""
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


class _Bytes:
    """The values of a string or binary column as slices of its buffer."""

    __slots__ = ("_data", "_offsets")

    def __init__(self, column: Any) -> None:
        import pyarrow as pa

        # Casting to the one type with 64-bit offsets keeps the values where they are.
        column = column.cast(pa.large_binary())
        _, offsets, data = column.buffers()
        self._offsets = memoryview(offsets).cast("q")[
            column.offset : column.offset + len(column) + 1
        ]
        self._data = memoryview(data if data is not None else b"").cast("B")

    def span(self, first: int, last: int) -> memoryview:
        """Return the bytes of the values ``first`` to ``last - 1``, which lie side by side."""
        return self._data[self._offsets[first] : self._offsets[last]]

    def length(self, index: int) -> int:
        return self._offsets[index + 1] - self._offsets[index]


class ContentIds:
    """Ids by content for one task. Not thread-safe: a task has one."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._generation = 0
        self._seen: dict[bytes, int] = {}

    def column(self, batch: pa.RecordBatch, subject: str | None) -> pa.Array:
        """Return one id per row of ``batch`` (columns subject, data, headers if there are any).

        ``subject`` is the fixed subject, or None if the batch has a column of that name.
        """
        import pyarrow as pa

        data = _Bytes(batch.column("data"))
        subjects = None if subject is not None else _Bytes(batch.column("subject"))
        headers = _HeaderBytes(batch.column("headers")) if "headers" in batch.schema.names else None
        fixed = hashlib.blake2b((subject or "").encode(), digest_size=_DIGEST_BYTES)
        ids = []
        for row in range(batch.num_rows):
            state = fixed.copy()
            if subjects is not None:
                state.update(subjects.length(row).to_bytes(4, "little"))
                state.update(subjects.span(row, row + 1))
            if headers is not None:
                headers.feed(row, state)
            state.update(data.span(row, row + 1))
            ids.append(self._id(state.digest()))
        return pa.array(ids, pa.string())

    def _id(self, digest: bytes) -> str:
        seen = self._seen
        if len(seen) >= GENERATION_ROWS and digest not in seen:
            seen.clear()
            self._generation += 1
        count = seen.get(digest, 0)
        seen[digest] = count + 1
        generation = f"g{self._generation}-" if self._generation else ""
        return f"{self._prefix}.{digest.hex()}.{generation}{count}"


class _HeaderBytes:
    """The header maps of a batch, as bytes that differ whenever the headers differ."""

    def __init__(self, column: Any) -> None:
        import pyarrow as pa

        # A map is a list of (key, value) entries that lie side by side.
        self._entries = memoryview(column.offsets.cast(pa.int64()).buffers()[1]).cast("q")
        self._keys = _Bytes(column.keys)
        self._values = _Bytes(column.items)

    def feed(self, row: int, state: Any) -> None:
        first, last = self._entries[row], self._entries[row + 1]
        state.update((last - first).to_bytes(4, "little"))
        for entry in range(first, last):
            for part in (self._keys, self._values):
                state.update(part.length(entry).to_bytes(4, "little"))
                state.update(part.span(entry, entry + 1))


class PositionIds:
    """Ids by row number for one task: cheaper, but only right if the order is always the same."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._next = 0

    def column(self, batch: pa.RecordBatch, subject: str | None) -> pa.Array:
        """Return one id per row."""
        import pyarrow as pa

        first = self._next
        self._next += batch.num_rows
        return pa.array([f"{self._prefix}.{row}" for row in range(first, self._next)], pa.string())
