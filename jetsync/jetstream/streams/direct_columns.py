"""Arrow columns of a direct get: the lines a server added to the headers become columns.

Everything here works on whole columns. It needs pyarrow and is imported only where that is there.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetsync.errors import ProtocolError

__all__ = ["make_columns"]

_SERVER_LINES = {
    "Nats-Stream": True,
    "Nats-Subject": True,
    "Nats-Sequence": True,
    "Nats-Time-Stamp": True,
    "Nats-Num-Pending": True,
    "Nats-Last-Sequence": True,
    # Only get_last_msgs has it, and some servers only at the end.
    "Nats-UpTo-Sequence": False,
}
"""Names of the added lines, and whether each message must have them."""
_NUMBER = pa.uint64()
_TIME = pa.timestamp("ns", "UTC")


def make_columns(received: pa.RecordBatch, names: list[str], text_headers: bool) -> pa.RecordBatch:
    """Return the columns ``names`` of messages given as ``data`` and ``headers``, as they came.

    Does not block. Raises ProtocolError for a message without the server's lines.
    """
    rows = received.num_rows
    lines = _Lines(received.column("headers"))
    found: dict[str, Any] = {}
    for name in names:
        if name == "data":
            found[name] = received.column("data")
        elif name == "headers":
            found[name] = lines.published(text_headers)
        elif name == "subject":
            found[name] = _text(lines.last("Nats-Subject"))
        elif name == "stream_seq":
            found[name] = _text(lines.last("Nats-Sequence")).cast(_NUMBER)
        elif name == "num_pending":
            found[name] = _text(lines.last("Nats-Num-Pending")).cast(_NUMBER)
        elif name == "timestamp":
            found[name] = _times(lines.last("Nats-Time-Stamp"))
        else:
            found[name] = pa.nulls(rows, pa.string() if name == "reply" else _NUMBER)
    return pa.record_batch([found[name] for name in names], names=names)


class _Lines:
    """The headers of all messages as flat columns: names, and the values of each."""

    def __init__(self, headers: Any) -> None:
        # Rows without headers cannot be: every message has the server's lines.
        if headers.null_count:
            raise ProtocolError("a direct get was answered without headers")
        self._headers = headers
        self._keys = headers.keys
        self._lists = headers.items
        self._values = headers.items.values
        self._ends = pc.subtract(self._lists.offsets[1:], 1)

    def _where(self, name: str) -> Any:
        """Positions, among all values, of the last one called ``name`` in each message."""
        keys = pc.indices_nonzero(pc.equal(self._keys, name))
        return self._ends.take(keys)

    def last(self, name: str) -> Any:
        """The value that the server gave, one for each message."""
        where = self._where(name)
        if len(where) != len(self._headers):
            raise ProtocolError(f"a direct get was answered without {name}, or with 512 headers")
        return self._values.take(where)

    def published(self, text_headers: bool) -> Any:
        """The headers without the server's lines; null for a message that has no others."""
        gone = pa.concat_arrays(
            [
                where
                for name, always in _SERVER_LINES.items()
                if len(where := self._where(name)) == len(self._headers) or always
            ]
        )
        kept = pc.invert(pc.is_in(_range(len(self._values)), gone.cast(pa.int64())))
        values_before = _running(kept)
        list_offsets = values_before.take(self._lists.offsets)
        sizes = pc.subtract(list_offsets[1:], list_offsets[:-1])
        keys_kept = pc.greater(sizes, 0)
        keys_before = _running(keys_kept)
        row_offsets = keys_before.take(self._headers.offsets)
        empty = pc.equal(row_offsets[1:], row_offsets[:-1])
        starts = pa.concat_arrays([list_offsets[:-1].filter(keys_kept), list_offsets[-1:]])
        item = pa.string() if text_headers else pa.binary()
        lists = pa.ListArray.from_arrays(
            starts, self._values.filter(kept), type=pa.list_(pa.field("item", item))
        )
        kind = pa.map_(pa.string(), pa.list_(pa.field("item", item)))
        # A null offset makes a null row; the last offset is not a row.
        marked = pc.if_else(
            pa.concat_arrays([empty, pa.array([False])]), pa.scalar(None, pa.int32()), row_offsets
        )
        return pa.MapArray.from_arrays(marked, self._keys.filter(keys_kept), lists, type=kind)


def _range(length: int) -> Any:
    """0, 1, 2 ... below ``length``."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(1, length)), 1)


def _running(flags: Any) -> Any:
    """How many flags are set before each position, and in all."""
    zero = pa.array([0], pa.int32())
    if not len(flags):
        return zero
    return pa.concat_arrays([zero, pc.cumulative_sum(flags.cast(pa.int32()))])


def _text(values: Any) -> Any:
    """Values as text; bytes that are not UTF-8 become U+FFFD."""
    if pa.types.is_string(values.type):
        return values
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in values.to_pylist()])


def _times(values: Any) -> Any:
    """RFC 3339 times to the nanosecond."""
    return _text(values).cast(_TIME)
