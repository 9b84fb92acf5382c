"""Rows that bring the headers of the messages that they were made of."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetsync.spark.header_columns import header_map
from tests.spark.test_sink_columns import LISTS, publish

PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
ORIGINS = {"stream": ["S"] * 4, "seq": pa.array([1, 2, 3, 4], pa.int64())}


def rows(target, headers, **more):
    """Four rows with these headers each."""
    columns = {"subject": [f"{target.name}.copy"] * 4, "data": [b"a", b"b", b"c", b"d"]}
    return {**columns, "headers": pa.array([headers] * 4, LISTS), **more}


@pytest.mark.parametrize(
    ("dedup", "more"),
    [
        ("content", {}),
        ("position", {}),
        ("source", ORIGINS),
        ("column", {"msg_id": ["1", "2", "3", "4"]}),
    ],
)
@pytest.mark.parametrize("atomic", ["none", "chunk"])
def test_rows_have_their_own_ids_not_that_of_a_message_that_they_were_made_of(
    new_stream, dedup, more, atomic
):
    """Four rows of one message: under its id one would be stored, and three be lost."""
    stream = new_stream(allow_atomic=True)
    columns = rows(stream, [("Nats-Msg-Id", ["same"]), ("kind", ["k"])], **more)
    for duplicates in (0, 4):
        done = publish(stream, columns, dedup=dedup, atomic=atomic)
        assert (done.stored, done.duplicates, stream.messages) == (4, duplicates, 4)
    messages = [stream.js.stream(stream.name).get_msg(seq) for seq in range(1, 5)]
    assert len({message.headers["Nats-Msg-Id"] for message in messages}) == 4
    assert {message.headers["kind"] for message in messages} == {"k"}


def test_without_ids_of_the_sink_those_in_the_headers_count(new_stream):
    stream = new_stream()
    columns = rows(stream, [("Nats-Msg-Id", ["same"])])
    assert publish(stream, columns, dedup="none").duplicates == 3
    assert stream.messages == 1


@pytest.mark.parametrize("atomic", ["none", "chunk"])
def test_messages_that_were_stored_together_are_copied_singly(js, new_stream, atomic):
    source, target = new_stream(allow_atomic=True), new_stream(allow_atomic=True)
    with js.batch() as batch:
        for number in range(4):
            batch.add(f"{source.name}.x", b"%d" % number)
    stored = [js.stream(source.name).get_msg(seq).headers for seq in range(1, 5)]
    assert "Nats-Batch-Commit" in stored[-1]
    headers = [[(name, [head[name]]) for name in head] for head in stored]
    columns = {**rows(target, []), "headers": pa.array(headers, LISTS)}
    assert publish(target, columns, atomic=atomic).stored == 4
    assert target.messages == 4


@pytest.mark.parametrize("kind", [LISTS, pa.map_(pa.string(), pa.string()), PAIRS])
def test_what_is_left_out_moves_no_header_to_another_row(kind):
    given = [
        [("a", "1"), ("Nats-Msg-Id", "x"), ("b", None)],
        None,
        [("Nats-Batch-Id", "y")],
        [("Nats-Msg-Id", "z"), ("c", "2"), ("Nats-Batch-Sequence", "3"), ("d", "4")],
    ]
    rows = [row and [as_entry(kind, *entry) for entry in row] for row in given]
    batch = pa.RecordBatch.from_pydict({"headers": pa.array(rows, kind)})
    kept = [[("a", b"1")], [], [], [("c", b"2"), ("d", b"4")]]
    with_ids = [[("a", b"1"), ("Nats-Msg-Id", b"x")], [], []]
    assert header_map(batch, with_ids=False).to_pylist() == kept
    assert header_map(batch).to_pylist()[:3] == with_ids
    for first in range(4):
        piece = batch.slice(first, 2)
        assert header_map(piece, with_ids=False).to_pylist() == kept[first : first + 2]


def as_entry(kind, name, value):
    if kind is LISTS:
        return name, value and [value]
    return {"key": name, "value": value} if kind is PAIRS else (name, value)
