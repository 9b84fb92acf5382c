"""Message ids by content, for rows that are published again in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._core import content_ids
from jetsync._core.arrow_rows import ArrowRows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ContentIds", "digest_rows"]

GENERATION_ROWS = 1_000_000
"""Beyond this many different rows the counting starts anew (in a new generation, which is part of
the id). That bounds memory to 32 MB; in return, publishing a larger piece again in another order
may store rows twice. No row is ever lost."""


class ContentIds:
    """Ids made of a prefix, a hash of the row, and how many rows with that hash came before.

    They do not depend on the order of the rows, and different rows never share one. The same
    prefix and rows give the same ids in every version. Safe in several threads.
    """

    def __init__(self, prefix: str, generation_rows: int = GENERATION_ROWS) -> None:
        self._core = content_ids.ContentIds(prefix.encode(), generation_rows)

    def column(self, batch: pa.RecordBatch, subject: str | None) -> pa.Array:
        """Return one id per row of ``batch`` (columns subject, data, headers if there are any).

        ``subject`` is the fixed subject, or None if the batch has a column of that name. Headers
        are a map with one value for each entry. Needs pyarrow.
        """
        import pyarrow as pa

        offsets, text = self._core.column(ArrowRows(batch), *_parts(batch, subject))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(pa.large_string(), batch.num_rows, buffers)


def digest_rows(batch: pa.RecordBatch, subject: str | None) -> int:
    """Return a number of 64 bits that stands for the rows of a batch in any order; those of several
    batches are added, modulo 2**64. Takes what :meth:`ContentIds.column` takes."""
    return content_ids.digest_rows(ArrowRows(batch), *_parts(batch, subject))


def _parts(
    batch: pa.RecordBatch, subject: str | None
) -> tuple[str, str | None, bytes | None, str | None]:
    """Where the parts of a row are: its data, its subject or the fixed one, its headers."""
    return (
        "data",
        "subject" if subject is None else None,
        None if subject is None else subject.encode(),
        "headers" if "headers" in batch.schema.names else None,
    )
