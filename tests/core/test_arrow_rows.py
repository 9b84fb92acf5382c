"""Rows of other people's record batches are read in whatever layout they have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetsync._core.arrow_rows import ArrowRows
from jetsync._core.bulk import BulkWindow
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync.errors import ConfigError
from jetsync.headers import Headers
from tests.core.kit import client_frames


def sent(batch, *, subject="subject", data="data", headers=None, msg_id=None, constant=None):
    """Publish a record batch; returns the frames and the rejected rows."""
    outbound = Outbound()
    window = BulkWindow(outbound, Mailbox(), b"r.", None, b"", 10_000)
    rows = ArrowRows(batch)
    start = 0
    while start < rows.length:
        taken = window.add_arrow(rows, subject, constant, data, headers, msg_id, start)
        assert taken > 0
        start += taken
    return client_frames(outbound.peek()), window.rejected


def batch_of(**columns):
    return pa.record_batch(columns)


TEXTS = ["a", "b.c", "d"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_text_and_binary_columns_of_both_widths(kind):
    batch = batch_of(subject=pa.array(TEXTS, kind), data=pa.array(["x", "", "zz"], kind))
    frames, rejected = sent(batch)
    assert [f.subject for f in frames] == [b"a", b"b.c", b"d"]
    assert [f.payload for f in frames] == [b"x", b"", b"zz"]
    assert rejected == []


def test_the_subject_may_be_constant():
    frames, _ = sent(batch_of(data=[b"x", b"y"]), subject=None, constant=b"fixed")
    assert [(f.subject, f.payload) for f in frames] == [(b"fixed", b"x"), (b"fixed", b"y")]


def test_a_sliced_batch_sends_its_own_rows():
    n = 1000
    headers = pa.array(
        [[("K", str(i))] if i % 3 else None for i in range(n)], pa.map_(pa.string(), pa.string())
    )
    batch = batch_of(
        subject=pa.array([f"s.{i}" for i in range(n)]),
        data=pa.array([b"%d" % i if i % 5 else None for i in range(n)]),
        headers=headers,
    )
    for offset, length in ((0, 10), (7, 20), (13, 1), (100, 900), (999, 1), (500, 0)):
        frames, rejected = sent(batch.slice(offset, length), headers="headers")
        assert rejected == []
        expected = range(offset, offset + length)
        assert [f.subject for f in frames] == [b"s.%d" % i for i in expected]
        assert [f.payload for f in frames] == [b"%d" % i if i % 5 else b"" for i in expected]
        assert [Headers.parse(f.header).get("K") for f in frames] == [
            str(i) if i % 3 else None for i in expected
        ]


def test_null_data_is_an_empty_payload_and_a_null_subject_is_rejected():
    batch = batch_of(subject=pa.array(["a", None, "c"]), data=pa.array([None, b"x", b"y"]))
    frames, rejected = sent(batch)
    assert [(f.subject, f.payload) for f in frames] == [(b"a", b""), (b"c", b"y")]
    ((number, error),) = rejected
    assert number == 1
    assert isinstance(error, ConfigError)


# -- headers -------------------------------------------------------------------------------------

LINES: list[list[tuple[str, list[str]]] | None] = [
    [("A", ["1"]), ("B", ["x"])],
    None,
    [],
    [("A", ["1", "2"])],
    [("A", [])],
]


@pytest.mark.parametrize("value", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("key", [pa.string(), pa.binary(), pa.large_string()])
def test_header_maps_of_lists(key, value):
    headers = pa.array(LINES, pa.map_(key, pa.list_(value)))
    batch = batch_of(data=[b"x"] * 5, headers=headers)
    frames, rejected = sent(batch, subject=None, constant=b"s", headers="headers")
    assert rejected == []
    assert [f.header for f in frames] == [
        b"NATS/1.0\r\nA: 1\r\nB: x\r\n\r\n",
        b"",
        b"",
        b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n",
        b"",
    ]
    assert [f.verb for f in frames] == [b"HPUB", b"PUB", b"PUB", b"HPUB", b"PUB"]


@pytest.mark.parametrize("value", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_header_maps_of_single_values_and_nulls(value):
    headers = pa.array([[("A", "1"), ("B", None), ("C", "")], None], pa.map_(pa.string(), value))
    batch = batch_of(data=[b"x", b"y"], headers=headers)
    frames, _ = sent(batch, subject=None, constant=b"s", headers="headers")
    assert [f.header for f in frames] == [b"NATS/1.0\r\nA: 1\r\nC: \r\n\r\n", b""]


def test_null_lists_and_null_items_are_left_out():
    headers = pa.array(
        [[("A", ["1", None, "2"]), ("B", None)]], pa.map_(pa.string(), pa.list_(pa.string()))
    )
    batch = batch_of(data=[b"x"], headers=headers)
    frames, _ = sent(batch, subject=None, constant=b"s", headers="headers")
    assert frames[0].header == b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"


def test_a_null_list_that_spans_items_is_still_null():
    items = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array(["hidden", "seen"]), mask=pa.array([True, False])
    )
    headers = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array(["A", "B"]), items)
    batch = batch_of(data=[b"x"], headers=headers)
    frames, _ = sent(batch, subject=None, constant=b"s", headers="headers")
    assert frames[0].header == b"NATS/1.0\r\nB: seen\r\n\r\n"


def test_children_with_offsets_of_their_own():
    """Slices below the map: its lists and the text in them start somewhere else."""
    items = pa.array(["no", "no", "1", "2", "3"]).slice(2)
    lists = pa.ListArray.from_arrays(pa.array([9, 0, 1, 3], pa.int32()).slice(1), items)
    keys = pa.array(["no", "A", "B"]).slice(1)
    headers = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), keys, lists)
    batch = batch_of(data=[b"x", b"y"], headers=headers)
    frames, _ = sent(batch, subject=None, constant=b"s", headers="headers")
    assert [Headers.parse(f.header).to_dict() for f in frames] == [{"A": ["1"]}, {"B": ["2", "3"]}]


def test_entries_with_an_offset_of_their_own():
    kind = pa.map_(pa.string(), pa.string())
    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]
    entries = pa.StructArray.from_arrays(
        [pa.array(["no", "A", "B", "C"]), pa.array(["no", "1", "2", "3"])], fields=fields
    )
    offsets = pa.array([0, 1, 3], pa.int32()).buffers()[1]
    headers = pa.Array.from_buffers(kind, 2, [None, offsets], children=[entries.slice(1)])
    batch = batch_of(data=[b"x", b"y"], headers=headers)
    frames, _ = sent(batch, subject=None, constant=b"s", headers="headers")
    assert [Headers.parse(f.header).to_dict() for f in frames] == [
        {"A": ["1"]},
        {"B": ["2"], "C": ["3"]},
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [("a b", "v"), ("a:", "v"), ("", "v"), ("é", "v"), ("A", "x\r\ny"), ("A", "\0")],
)
def test_a_row_with_a_hostile_header_is_rejected_and_its_neighbours_are_sent(name, value):
    headers = pa.array(
        [[("Good", "1")], [("Fine", "0"), (name, value)], [("Good", "2")]],
        pa.map_(pa.string(), pa.string()),
    )
    batch = batch_of(data=[b"0", b"1", b"2"], headers=headers)
    frames, rejected = sent(batch, subject=None, constant=b"s", headers="headers")
    assert [f.header for f in frames] == [
        b"NATS/1.0\r\nGood: 1\r\n\r\n",
        b"NATS/1.0\r\nGood: 2\r\n\r\n",
    ]
    ((number, error),) = rejected
    assert number == 1
    assert "header" in str(error)


# -- message ids ---------------------------------------------------------------------------------


def test_a_column_gives_the_message_ids():
    batch = batch_of(data=[b"x", b"y"], id=["one", "two"])
    frames, _ = sent(batch, subject=None, constant=b"s", msg_id="id")
    assert [Headers.parse(f.header)["Nats-Msg-Id"] for f in frames] == ["one", "two"]


def test_rows_without_an_id_are_rejected_when_ids_are_asked_for():
    batch = batch_of(data=[b"x", b"y", b"z"], id=pa.array(["one", None, ""]))
    frames, rejected = sent(batch, subject=None, constant=b"s", msg_id="id")
    assert [f.payload for f in frames] == [b"x"]
    assert [number for number, _ in rejected] == [1, 2]


# -- what is refused -----------------------------------------------------------------------------


def test_names_and_length():
    rows = ArrowRows(batch_of(a=[1, 2], b=["x", "y"]))
    assert (rows.names, rows.length) == (["a", "b"], 2)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1]),
        pa.array(["x"]).dictionary_encode(),
        pa.array(["x"], pa.string_view()),
        pa.array([["x"]]),
    ],
    ids=lambda c: str(c.type),
)
def test_other_column_types_are_refused_with_advice(column):
    with pytest.raises(ConfigError, match="cast it first"):
        sent(batch_of(data=column), subject=None, constant=b"s")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x"]),
        pa.array([[("A", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([[(1, "x")]], pa.map_(pa.int64(), pa.string())),
        pa.array([[("A", [["x"]])]], pa.map_(pa.string(), pa.list_(pa.list_(pa.string())))),
        pa.array([{"A": "x"}]),
    ],
    ids=lambda c: str(c.type),
)
def test_other_header_types_are_refused(column):
    batch = batch_of(data=[b"x"], headers=column)
    with pytest.raises(ConfigError, match="header column 'headers' must be"):
        sent(batch, subject=None, constant=b"s", headers="headers")


def test_a_missing_column_is_named_together_with_those_there_are():
    with pytest.raises(ConfigError, match="no column 'nope'; it has data"):
        sent(batch_of(data=[b"x"]), subject=None, constant=b"s", data="nope")


@pytest.mark.parametrize(
    "thing",
    [None, [1], b"x", pa.table({"a": [1]}), pa.array(["x"])],
    ids=lambda t: type(t).__name__,
)
def test_only_record_batches_are_taken(thing):
    with pytest.raises(ConfigError, match="record batch"):
        ArrowRows(thing)


def test_a_struct_array_is_a_record_batch_unless_it_has_an_offset():
    struct = pa.StructArray.from_arrays([pa.array([b"x", b"y"])], ["data"])
    frames, _ = sent(struct, subject=None, constant=b"s")
    assert [f.payload for f in frames] == [b"x", b"y"]
    with pytest.raises(ConfigError, match="offset"):
        ArrowRows(struct.slice(1))


def test_the_batch_stays_alive_as_long_as_its_rows():
    rows = ArrowRows(batch_of(data=[b"%d" % i * 100 for i in range(1000)]))
    outbound = Outbound()
    window = BulkWindow(outbound, Mailbox(), b"r.", None, b"", 2000)
    start = 0
    while start < rows.length:
        start += window.add_arrow(rows, None, b"s", "data", None, None, start)
    payloads = [f.payload for f in client_frames(outbound.peek())]
    assert payloads == [b"%d" % i * 100 for i in range(1000)]
