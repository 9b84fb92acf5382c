"""The rows of Arrow batches are stored as an atomic batch: all of them, or none."""

from __future__ import annotations

import uuid

import pytest

import jetsync

pa = pytest.importorskip("pyarrow", reason="the extra arrow; rows of Python objects run")

TEXTS = pa.map_(pa.string(), pa.list_(pa.string()))


@pytest.fixture
def stream(url):
    """A stream that takes atomic batches, and its JetStream."""
    name = "B" + uuid.uuid4().hex[:10]
    with jetsync.connect(url) as nc:
        js = nc.jetstream()
        made = js.create_stream(name=name, subjects=[f"{name}.>"], allow_atomic=True)
        yield js, made
        js.delete_stream(name)


def rows_of(name, count, **columns):
    given = {
        "subject": [f"{name}.{n % 3}" for n in range(count)],
        "data": [b"%d" % n for n in range(count)],
        **columns,
    }
    return pa.RecordBatch.from_pydict(given)


def stored(stream):
    last = stream.info().state.last_seq
    return [stream.get_msg(seq) for seq in range(1, last + 1)]


def test_rows_and_single_messages_are_one_batch_in_their_order(stream):
    js, made = stream
    headers = pa.array([[("Color", ["red", "blue"])], None, []], TEXTS)
    rows = rows_of(made.name, 3, headers=headers, msg_id=["a", "b", "c"])
    with js.batch() as batch:
        batch.add(f"{made.name}.x", b"first")
        batch.add_arrow(
            rows, subject="subject", headers="headers", msg_id="msg_id", expected_stream=made.name
        )
        batch.add_arrow(rows_of(made.name, 10).slice(4, 2), subject=f"{made.name}.y")
        assert len(batch) == 6
    assert batch.ack is not None
    assert (batch.ack.seq, batch.ack.count) == (6, 6)
    found = stored(made)
    assert [bytes(message.data) for message in found] == [b"first", b"0", b"1", b"2", b"4", b"5"]
    ends = [message.subject.rpartition(".")[2] for message in found]
    assert ends == ["x", "0", "1", "2", "y", "y"]
    assert [message.headers.get("Nats-Msg-Id") for message in found[1:4]] == ["a", "b", "c"]
    assert found[1].headers.get_all("Color") == ["red", "blue"]


def test_a_table_of_large_rows_is_one_batch(stream):
    js, made = stream
    data = [bytes(50_000)] * 40
    table = pa.Table.from_batches([rows_of(made.name, 40, data=data)] * 2)
    batch = js.batch()
    batch.add_arrow(table, subject="subject")
    assert batch.commit().count == 80
    assert made.info().state.messages == 80


def cannot_be_sent(name):
    """Rows of which the last one cannot be a message, and the error that says so."""
    commit = pa.array([None, None, [("Nats-Batch-Commit", ["1"])]], TEXTS)
    return {
        "an empty id": (rows_of(name, 3, msg_id=["a", "b", ""]), jetsync.ConfigError),
        "a wildcard": (rows_of(name, 3, subject=[name, name, f"{name}.*"]), jetsync.ConfigError),
        "too large": (
            rows_of(name, 3, data=[b"", b"", bytes(2_000_000)]),
            jetsync.MaxPayloadError,
        ),
        "a commit": (rows_of(name, 3, headers=commit), jetsync.ConfigError),
    }


@pytest.mark.parametrize("what", sorted(cannot_be_sent("x")))
def test_nothing_is_sent_when_one_row_cannot_be(stream, what):
    js, made = stream
    rows, error = cannot_be_sent(made.name)[what]
    batch = js.batch()
    batch.add(f"{made.name}.x", b"good")
    batch.add_arrow(
        rows,
        subject="subject",
        headers="headers" if "headers" in rows.schema.names else None,
        msg_id="msg_id" if "msg_id" in rows.schema.names else None,
    )
    before = js.publish(f"{made.name}.x", b"before").seq
    with pytest.raises(error):
        batch.commit()
    assert js.publish(f"{made.name}.x", b"after").seq == before + 1


def test_a_column_that_is_missing_is_told_at_once_and_rows_may_be_none(stream):
    js, made = stream
    batch = js.batch()
    with pytest.raises(jetsync.ConfigError, match="no column 'headers'"):
        batch.add_arrow(rows_of(made.name, 2), subject="subject", headers="headers")
    batch.add_arrow(rows_of(made.name, 0), subject="subject")
    assert len(batch) == 0
    with pytest.raises(jetsync.ConfigError, match="the batch is empty"):
        batch.commit()
