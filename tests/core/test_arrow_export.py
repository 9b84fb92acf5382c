"""A batch as Arrow columns: the promised schema, valid data, nulls where there is nothing."""

from __future__ import annotations

import gc
import time

import pyarrow as pa
import pytest

import jetsync
from jetsync._core.arrow import COLUMNS
from jetsync._core.batch import MsgBatch
from jetsync.errors import ConfigError
from tests.core.kit import Capsules, block, message, receiver

NS = 1795229586547204964

SCHEMA = pa.schema(
    [
        ("subject", pa.string()),
        ("data", pa.binary()),
        ("headers", pa.map_(pa.string(), pa.list_(pa.binary()))),
        ("stream_seq", pa.uint64()),
        ("consumer_seq", pa.uint64()),
        ("num_delivered", pa.uint64()),
        ("num_pending", pa.uint64()),
        ("timestamp", pa.timestamp("ns", "UTC")),
        ("reply", pa.string()),
    ]
)


def batch_of(*frames, kind=MsgBatch):
    inbound, box = receiver()
    assert inbound.feed(b"".join(frames)) == []
    batch = box.new_batch(kind, None)
    box.take_into(batch, len(frames))
    return batch


def export(batch, columns=None, *, text=False, microseconds=False):
    exported = pa.record_batch(Capsules(*batch._arrow_capsules(columns, text, microseconds)))
    exported.validate(full=True)
    return exported


def rows(*frames, **options):
    return export(batch_of(*frames), **options).to_pylist()


def ack(seq):
    return b"$JS.ACK.S.C.2.%d.%d.%d.9" % (seq, seq + 1, NS + seq)


def test_the_schema_is_the_documented_one():
    for batch in (batch_of(), batch_of(message())):
        exported = pa.record_batch(batch)
        assert exported.schema.equals(SCHEMA)
        assert all(field.nullable for field in exported.schema)
    assert tuple(SCHEMA.names) == COLUMNS
    headers = export(batch_of(message()), text=True).schema.field("headers")
    assert headers.type == pa.map_(pa.string(), pa.list_(pa.string()))


def test_times_may_be_cut_to_microseconds():
    (column,) = export(batch_of(message(reply=ack(7))), ["timestamp"], microseconds=True).columns
    assert column.type == pa.timestamp("us", "UTC")
    assert column.cast(pa.int64()).to_pylist() == [(NS + 7) // 1000]


def test_every_column_of_a_message():
    header = block(b"A: 1", b"B: x", b"A: 2")
    exported = export(batch_of(message(b"s.t", 1, b"payload", reply=ack(7), header=header)))
    assert exported.column("timestamp").cast(pa.int64()).to_pylist() == [NS + 7]
    (row,) = exported.drop_columns("timestamp").to_pylist()
    assert row == {
        "subject": "s.t",
        "data": b"payload",
        "headers": [("A", [b"1", b"2"]), ("B", [b"x"])],
        "stream_seq": 7,
        "consumer_seq": 8,
        "num_delivered": 2,
        "num_pending": 9,
        "reply": ack(7).decode(),
    }


def test_nulls_stand_where_a_message_has_nothing():
    exported = export(
        batch_of(
            message(b"a", 1, reply=ack(1)),
            message(b"b", 1, b"x", reply=b"_INBOX.1"),
            message(b"c", 1, header=block()),
            message(b"d", 1, b"x", reply=ack(2), header=block(b"A: b")),
        )
    )
    numbers = COLUMNS[3:8]
    for name in numbers:
        assert exported.column(name).is_null().to_pylist() == [False, True, True, False]
    assert exported.column("headers").to_pylist() == [None, None, [], [("A", [b"b"])]]
    # No message has a null subject, payload or reply: they are empty.
    for name in ("subject", "data", "reply"):
        assert exported.column(name).null_count == 0
    assert exported.column("reply").to_pylist()[2] == ""


def test_an_empty_batch_has_columns_and_no_rows():
    exported = export(batch_of())
    assert (exported.num_rows, exported.schema.names) == (0, list(COLUMNS))
    assert export(MsgBatch()).num_rows == 0


def test_numbers_at_the_ends_of_their_range():
    low = b"$JS.ACK.S.C.0.0.0.0.0"
    high = b"$JS.ACK.S.C.%d.%d.%d.%d.%d" % ((2**64 - 1,) * 3 + (2**63 - 1, 2**64 - 1))
    exported = export(batch_of(message(reply=low), message(reply=high)))
    for name in ("stream_seq", "consumer_seq", "num_delivered", "num_pending"):
        assert exported.column(name).to_pylist() == [0, 2**64 - 1]
    assert exported.column("timestamp").cast(pa.int64()).to_pylist() == [0, 2**63 - 1]


def test_subjects_and_names_become_valid_text_and_values_stay_bytes():
    frame = message(b"a.\xff", 1, reply=b"r.\xc3", header=b"NATS/1.0\r\nK\xfe: \xff\xfe\r\n\r\n")
    (row,) = rows(frame)
    assert (row["subject"], row["reply"]) == ("a.\ufffd", "r.\ufffd")
    assert row["headers"] == [("K\ufffd", [b"\xff\xfe"])]
    (row,) = rows(frame, text=True)
    assert row["headers"] == [("K\ufffd", ["\ufffd\ufffd"])]


HOSTILE = {
    "garbage": b"GARBAGE",
    "no blank line": b"NATS/1.0\r\nA: b\r\n",
    "no name": b"NATS/1.0\r\n: x\r\n\r\n",
    "only blanks": b"  \t ",
    "nul bytes": b"NATS/1.0\r\nA\0: \0\r\n\r\n",
    "cut": b"NATS/1.0\r\nA",
    "colons": b":::::",
    "one CR": b"\r",
    "line ends": b"\r\n" * 50,
    "peer status": b"NATS/1.0 404 Not Here\r\nA: b\r\n\r\n",
}


@pytest.mark.parametrize("text", [False, True], ids=["bytes", "text"])
def test_hostile_headers_export_as_valid_arrow(text):
    frames = [message(payload=b"x", header=header) for header in HOSTILE.values()]
    found = dict(zip(HOSTILE, rows(*frames, text=text), strict=True))
    b = str if text else str.encode
    assert found["garbage"]["headers"] == found["no name"]["headers"] == []
    assert found["no blank line"]["headers"] == [("A", [b("b")])]
    assert found["nul bytes"]["headers"] == [("A\0", [b("\0")])]
    assert found["peer status"]["headers"] == [("A", [b("b")])]
    assert [row["data"] for row in found.values()] == [b"x"] * len(HOSTILE)


def test_every_line_of_a_block_reaches_the_column():
    many = block(*[b"N%d: %d" % (i % 600, i) for i in range(5000)])
    junk = block(*[b"no colon"] * 20_000, *[b"N%d: v" % i for i in range(600)])
    batch = batch_of(message(payload=b"x", header=many), *[message(payload=b"y", header=junk)] * 50)
    cells = export(batch, ["headers"]).column(0).to_pylist()
    assert cells[0] == [(f"N{i}", [b"%d" % n for n in range(i, 5000, 600)]) for i in range(600)]
    assert cells[1:] == [[(f"N{i}", [b"v"]) for i in range(600)]] * 50
    assert len(batch[0].headers) == 600


def test_columns_take_time_in_proportion_to_the_lines_of_a_block():
    """A publisher chooses how many there are. Ten times as many cost about ten times as much, where
    comparing each with all before it would cost a hundred times as much."""

    def cost(count: int) -> float:
        lines = block(*[b"%d%s: v" % (i, b"n" * 30) for i in range(count)])
        batch = batch_of(message(payload=b"x", header=lines))
        costs = []
        for _ in range(3):
            start = time.thread_time()
            batch._arrow_capsules(["headers"], False)
            costs.append(time.thread_time() - start)
        return min(costs)

    assert cost(100_000) < 40 * cost(10_000)


def test_one_name_with_very_many_values():
    (row,) = rows(message(payload=b"x", header=block(*[b"A: %d" % i for i in range(600)])))
    assert row["headers"] == [("A", [b"%d" % i for i in range(600)])]


def test_columns_can_be_chosen_and_ordered():
    batch = batch_of(message(b"s", 1, b"x", reply=ack(1)))
    exported = export(batch, ["timestamp", "data", "stream_seq"])
    assert exported.schema.names == ["timestamp", "data", "stream_seq"]
    assert exported.column("data").to_pylist() == [b"x"]
    for name in COLUMNS:
        assert export(batch, (name,)).schema.field(0).equals(SCHEMA.field(name))
    none = batch._arrow_capsules([])
    assert pa.array(Capsules(*none)).type == pa.struct([])


class Once:
    """What a reader of streams takes."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return self.capsule


def test_a_batch_is_a_stream_of_one_batch():
    batch = batch_of(message(b"s", 1, b"x", reply=ack(1), header=block(b"A: b")), message(b"t"))
    whole = pa.record_batch(batch)
    assert batch.__arrow_c_stream__() is not None  # and dropped, with all that it holds
    stream = batch.__arrow_c_stream__()
    reader = pa.RecordBatchReader.from_stream(Once(stream))
    assert reader.schema == whole.schema  # read a second time
    assert list(reader) == [whole]
    with pytest.raises(ValueError, match="released"):
        pa.RecordBatchReader.from_stream(Once(stream))
    assert pa.table(batch_of()).num_rows == 0
    del batch
    assert whole.column("data").to_pylist() == [b"x", b""]


def test_polars_and_duckdb_take_the_columns_of_a_batch_as_users_have_it():
    polars = pytest.importorskip("polars", reason="the extra dev; pyarrow reads the same capsules")
    duckdb = pytest.importorskip("duckdb", reason="the extra dev; pyarrow reads the same capsules")
    frames = [message(b"s.%d" % n, 1, b"%d" % n, reply=ack(n + 1)) for n in range(5)]
    batch = batch_of(*frames, kind=jetsync.MsgBatch)
    frame = polars.DataFrame(batch)
    assert frame.equals(polars.DataFrame(batch.to_arrow()))
    assert frame["stream_seq"].to_list() == [1, 2, 3, 4, 5]
    empty = polars.DataFrame(batch_of(kind=jetsync.MsgBatch))
    assert (empty.height, empty.schema) == (0, frame.schema)
    assert duckdb.sql("select sum(stream_seq)::int from batch").fetchall() == [(15,)]


@pytest.mark.parametrize("columns", [["nonsense"], ["data", "data"], "data", [None], [1]], ids=str)
def test_unknown_and_repeated_columns_are_config_errors(columns):
    with pytest.raises(ConfigError):
        batch_of(message())._arrow_capsules(columns)


def test_the_export_owns_its_data():
    """The batch may go, and the same batch may be exported again."""
    batch = batch_of(*[message(b"s", 1, b"%d" % i * 100, reply=ack(i)) for i in range(1000)])
    first, second = export(batch), export(batch)
    del batch
    gc.collect()
    assert first.equals(second)
    del first
    assert second.column("data").to_pylist() == [b"%d" % i * 100 for i in range(1000)]


def test_capsules_that_no_reader_takes_are_freed():
    batch = batch_of(*[message(b"s", 1, b"x" * 1000)] * 100)
    for _ in range(1000):
        batch._arrow_capsules()
    schema, array = batch._arrow_capsules()
    assert "arrow_schema" in repr(schema)
    assert "arrow_array" in repr(array)


def test_looking_at_messages_and_exporting_do_not_disturb_each_other():
    batch = batch_of(*[message(b"s%d" % i, 1, b"%d" % i) for i in range(10)])
    kept = list(batch)
    assert export(batch).column("subject").to_pylist() == [m.subject for m in kept]
    assert batch[3].data == b"3"


def test_many_segments_become_one_column():
    """Messages of all sizes, more than one block of memory holds."""
    sizes = [0, 1, 100, 5000, 70_000, 300_000] * 4
    frames = [message(payload=bytes([i % 256]) * size) for i, size in enumerate(sizes)]
    data = export(batch_of(*frames), ["data"]).column(0).to_pylist()
    assert data == [bytes([i % 256]) * size for i, size in enumerate(sizes)]
