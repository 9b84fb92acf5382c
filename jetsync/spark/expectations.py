"""Rows that expect a last sequence, met again by a repeated task.

The server compares the expectation before it looks at the message id, so it refuses a row that is
in the stream already. But then the message right behind the expected sequence is that row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetsync.errors import (
    MessageNotFoundError,
    WrongLastSequenceError,
)
from jetsync.spark.header_columns import AS_HEADERS

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync import JetStream

__all__ = ["expecting_rows", "is_refused_expectation", "stored_before"]

_LAST = AS_HEADERS["expected_last_sequence"]
_LAST_OF_SUBJECT = AS_HEADERS["expected_last_subject_sequence"]


def is_refused_expectation(error: BaseException) -> bool:
    """Tell whether a row, or a chunk with it, was refused for another last sequence."""
    return isinstance(error, WrongLastSequenceError) or isinstance(
        error.__cause__, WrongLastSequenceError
    )


def expecting_rows(batch: pa.RecordBatch) -> list[int]:
    """Return the rows that expect a last sequence of the stream or of their subject."""
    import pyarrow.compute as pc

    found: set[int] = set()
    for name in ("expected_last_sequence", "expected_last_subject_sequence"):
        if name in batch.schema.names:
            found.update(pc.indices_nonzero(batch.column(name).is_valid()).to_pylist())
    return sorted(found)


def stored_before(
    js: JetStream, stream: str, subject: str, headers: list[tuple[str, bytes]], msg_id: str
) -> int:
    """Return the sequence at which a row is in the stream, 0 if it is not. Blocks."""
    expected: dict[str, Any] = dict(headers)
    for name, of_subject in ((_LAST, None), (_LAST_OF_SUBJECT, subject)):
        if name not in expected:
            continue
        try:
            found = js.stream(stream).get_msg(int(expected[name]) + 1, next_by_subject=of_subject)
        except MessageNotFoundError:
            continue
        if found.headers.get("Nats-Msg-Id") == msg_id:
            return found.seq
    return 0
