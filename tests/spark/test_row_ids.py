"""Which ids a task gives to its rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetsync.spark.header_columns import header_map
from jetsync.spark.ids import LoggedContentIds, PositionIds, SourceIds
from jetsync.spark.publishing import Published, joined, make_ids
from jetsync.spark.write_options import WriteOptions


@pytest.mark.parametrize(
    ("dedup", "kind"),
    [
        ("content", LoggedContentIds),
        ("source", SourceIds),
        ("position", PositionIds),
        ("column", None),
        ("none", None),
    ],
)
def test_ids_are_made_only_where_the_option_says_so(dedup, kind):
    made = make_ids(WriteOptions.parse({"dedup": dedup}), "query", "3", 1)
    assert made is None if kind is None else isinstance(made, kind)


def test_counts_of_batches_add_up():
    assert Published(2, 1) + Published(3, 4) == Published(5, 5)


def headers_of_an_older_spark():
    """Rows without headers as PySpark 4.0 and 4.1 hand them over: what has no entries has no
    offsets either, so what lies in memory where they would be means nothing."""
    nothing = pa.py_buffer(b"\x7f" * 64).slice(0, 0)

    def text():
        return pa.Array.from_buffers(pa.string(), 0, [None, nothing, nothing])

    lists = pa.list_(pa.string())
    values = pa.Array.from_buffers(lists, 0, [None, nothing], children=[text()])
    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", lists)]
    entries = pa.Array.from_buffers(pa.struct(fields), 0, [None], children=[text(), values])
    buffers = [pa.py_buffer(b"\0"), pa.py_buffer(bytes(16))]
    column = pa.Array.from_buffers(pa.map_(pa.string(), lists), 3, buffers, children=[entries])
    return pa.RecordBatch.from_arrays([column], ["headers"])


def test_rows_without_headers_of_an_older_spark_crash_nothing():
    batch = headers_of_an_older_spark()
    (whole,) = joined([batch, batch.slice(1)])
    assert whole.num_rows == 5
    assert header_map(whole).to_pylist() == [[]] * 5
