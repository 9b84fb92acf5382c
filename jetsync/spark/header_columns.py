"""Columns that become message headers, as one Arrow map of names to values.

Every step works on whole columns: no Python object per row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AS_HEADERS", "header_map"]

MSG_ID = "Nats-Msg-Id"
OF_BATCHES = ("Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit")
"""Headers of messages that were stored together, by which a copy of one would begin a batch that
never ends."""

AS_HEADERS = {
    "expected_last_sequence": "Nats-Expected-Last-Sequence",
    "expected_last_subject_sequence": "Nats-Expected-Last-Subject-Sequence",
    "ttl": "Nats-TTL",
    "schedule": "Nats-Schedule",
    "schedule_target": "Nats-Schedule-Target",
}
"""Columns with one value that is a header of the server's. A null leaves the header out."""

OF_BUCKETS = {"kv_operation": "KV-Operation", "kv_rollup": "Nats-Rollup"}
"""The same for columns that are made of a change of a key."""


def header_map(batch: pa.RecordBatch, *, with_ids: bool = True) -> pa.MapArray:
    """Return everything in ``batch`` that becomes a header: map<string, binary>, never null.

    A name may be there more than once: each value is an entry of its own. Without ``with_ids`` the
    ids in column headers are left out, which a row has from the message that it was made of: it
    would count instead of the row's own.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [
        _single(batch.column(name), head)
        for name, head in {**AS_HEADERS, **OF_BUCKETS}.items()
        if name in batch.schema.names
    ]
    if "headers" in batch.schema.names:
        parts.append(_given(batch.column("headers"), OF_BATCHES if with_ids else _NO_IDS))
    offsets, keys, values = parts[0]
    if len(parts) > 1:
        # Entries of one row come from several columns: sort them together by row, in this order.
        rows = pa.concat_arrays(
            [pc.list_parent_indices(pa.ListArray.from_arrays(at, keys)) for at, keys, _ in parts]
        )
        order = pc.array_sort_indices(rows)
        keys = pa.concat_arrays([part[1] for part in parts]).take(order)
        values = pa.concat_arrays([part[2] for part in parts]).take(order)
        for part in parts[1:]:
            offsets = pc.add(offsets, part[0])
    return pa.MapArray.from_arrays(offsets, keys, values)


_NO_IDS = (MSG_ID, *OF_BATCHES)

_Entries = tuple[Any, Any, Any]
"""Where the entries of each row begin, with the end of the last; their names; their values."""


def _single(column: Any, header: str) -> _Entries:
    """One entry for each row that has a value."""
    import pyarrow as pa

    values = column.drop_null().cast(pa.string()).cast(pa.binary())
    return _ends(column.is_valid()), pa.repeat(pa.scalar(header), len(values)), values


def _given(column: Any, left_out: tuple[str, ...]) -> _Entries:
    """The entries of a map, or of an array of key and value; a list of values is several."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # By way of another type: a slice's offsets must become an array of their own.
    offsets = column.offsets.cast(pa.int64()).cast(pa.int32())
    if pa.types.is_map(column.type):
        keys, values = column.keys, column.items
    else:
        keys, values = column.values.field(0), column.values.field(1)
    if pa.types.is_large_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    if pa.types.is_list(values.type):
        # Copied, so that lists begin at 0 and one that is null is empty.
        values = values.take(_numbers(len(values)))
        keys = keys.take(pc.list_parent_indices(values))
        offsets = values.offsets.take(offsets)
        values = values.flatten()
    keys, values = keys.cast(pa.string()), values.cast(pa.binary())
    wanted = pc.invert(pc.is_in(keys, pa.array(left_out)))
    if values.null_count:
        wanted = pc.and_(wanted, values.is_valid())
    if not pc.all(wanted).as_py():
        offsets = _ends(wanted).take(offsets)
        keys, values = keys.filter(wanted), values.filter(wanted)
    # A slice of a batch still has the entries of the whole batch.
    first, count = offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()
    return pc.subtract(offsets, offsets[0]), keys.slice(first, count), values.slice(first, count)


def _ends(flags: Any) -> Any:
    """Return how many flags are set before each one, and how many there are: offsets."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = pc.cumulative_sum(flags.cast(pa.int32()))
    return pa.concat_arrays([pa.array([0], pa.int32()), counts])


def _numbers(count: int) -> Any:
    """Return 0, 1, 2 ... as an array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ones = pa.repeat(pa.scalar(1, pa.int32()), count)
    return pc.subtract(pc.cumulative_sum(ones), pa.scalar(1, pa.int32()))
