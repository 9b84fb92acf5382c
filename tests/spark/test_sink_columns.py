"""Columns of the sink: what each becomes in a message, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetsync.spark.errors import SparkSourceError
from jetsync.spark.header_columns import header_map
from jetsync.spark.publishing import RowPublisher, make_ids
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.write_options import WriteOptions

LISTS = pa.map_(pa.string(), pa.list_(pa.string()))


def publish(stream, columns, **options):
    parsed = WriteOptions.parse({**stream.write_options, **options})
    chosen = SinkColumns(frozenset(columns))
    publisher = RowPublisher(parsed, chosen, make_ids(parsed, "query", "0", 0))
    return publisher.publish(pa.RecordBatch.from_pydict(columns))


def refused(stream, columns, **options):
    with pytest.raises(SparkSourceError) as caught:
        publish(stream, columns, **options)
    return caught.value


def test_headers_of_all_columns_are_joined_row_by_row_and_nulls_left_out():
    headers = [[("a", ["1", "2"]), ("b", None)], None, [("c", []), ("d", ["3", None])]]
    batch = pa.RecordBatch.from_pydict(
        {
            "headers": pa.array(headers, LISTS),
            "ttl": pa.array(["1s", None, "2s"]),
            "expected_last_sequence": pa.array([None, 5, 6], pa.int64()),
        }
    )
    expected = [
        [("Nats-TTL", b"1s"), ("a", b"1"), ("a", b"2")],
        [("Nats-Expected-Last-Sequence", b"5")],
        [("Nats-Expected-Last-Sequence", b"6"), ("Nats-TTL", b"2s"), ("d", b"3")],
    ]
    assert header_map(batch).to_pylist() == expected
    for first in range(3):
        for last in range(first, 4):
            piece = batch.slice(first, last - first)
            assert header_map(piece).to_pylist() == expected[first:last]


def test_one_value_per_name_needs_no_list():
    one_each = pa.array(
        [[("a", "1")], None, [("b", ""), ("c", None)]], pa.map_(pa.string(), pa.string())
    )
    pairs = pa.array([None, [{"key": "k", "value": b"v"}, {"key": "n", "value": None}]])
    joined = pa.RecordBatch.from_pydict({"headers": one_each})
    assert header_map(joined.slice(1)).to_pylist() == [[], [("b", b"")]]
    assert header_map(pa.RecordBatch.from_pydict({"headers": pairs})).to_pylist() == [
        [],
        [("k", b"v")],
    ]


def test_rows_expire_and_may_expect_sequences(new_stream):
    stream = new_stream(allow_msg_ttl=True)
    columns = {
        "subject": [f"{stream.name}.a", f"{stream.name}.a", f"{stream.name}.b"],
        "data": ["1", "2", "3"],
        "ttl": ["1h", None, "never"],
        "expected_last_sequence": [0, 1, None],
        "expected_last_subject_sequence": [None, 1, 0],
    }
    assert publish(stream, columns).stored == 3
    messages = [stream.js.stream(stream.name).get_msg(seq) for seq in (1, 2, 3)]
    assert [message.headers.get("Nats-TTL") for message in messages] == ["1h", None, "never"]
    # A repeated task expects what was true when it ran first: its ids are looked at before.
    again = publish(stream, columns)
    assert (again.duplicates, stream.messages) == (3, 3)


def test_a_wrong_expectation_fails_at_once_with_a_code(new_stream):
    stream = new_stream(3)
    columns = {
        "subject": [f"{stream.name}.a"],
        "data": ["1"],
        "expected_last_sequence": [1],
    }
    assert refused(stream, columns).code == "JETSYNC_EXPECTATION_FAILED"
    assert stream.messages == 3


def test_scheduled_rows_are_published_by_the_stream(new_stream):
    stream = new_stream(allow_msg_schedules=True)
    columns = {
        "subject": [f"{stream.name}.plan.1"],
        "data": ["later"],
        "schedule": ["@at 2100-01-01T00:00:00Z"],
        "schedule_target": [f"{stream.name}.now"],
    }
    assert publish(stream, columns).stored == 1
    headers = stream.js.stream(stream.name).get_msg(1).headers
    assert headers["Nats-Schedule-Target"] == f"{stream.name}.now"


@pytest.mark.parametrize(
    "subject", ["a b", "a..b", ".a", "a.", "a.*", ">", "", "*.a", "a\tb", "a.>", "$SYS.REQ.PING"]
)
def test_a_bad_subject_is_found_before_anything_is_sent(new_stream, subject):
    stream = new_stream()
    columns = {"subject": [f"{stream.name}.a", subject], "data": ["x", "y"]}
    assert refused(stream, columns).code == "JETSYNC_INVALID_SUBJECT"
    assert stream.messages == 0


def test_a_row_is_no_request_to_the_servers(new_stream):
    """Its subject may be data from anywhere; here it would purge the stream."""
    stream = new_stream(5)
    columns = {"subject": [f"$JS.API.STREAM.PURGE.{stream.name}"], "data": [""]}
    assert refused(stream, columns).code == "JETSYNC_INVALID_SUBJECT"
    assert stream.messages == 5


def test_subjects_with_wildcard_letters_inside_a_token_are_fine(new_stream):
    stream = new_stream()
    columns = {"subject": [f"{stream.name}.a*b", f"{stream.name}.a>"], "data": ["x", "y"]}
    assert publish(stream, columns).stored == 2


@pytest.mark.parametrize("column", ["subject", "msg_id"])
def test_a_null_is_found_before_anything_is_sent(new_stream, column):
    stream = new_stream()
    columns = {"subject": [f"{stream.name}.a"] * 2, "data": ["x", "y"], "msg_id": ["1", "2"]}
    columns[column] = [columns[column][0], None]  # type: ignore[list-item]
    assert refused(stream, columns, dedup="column").code == "JETSYNC_NULL_VALUE"
    assert stream.messages == 0


def test_too_much_data_is_found_before_anything_is_sent(new_stream):
    stream = new_stream()
    columns = {"subject": [f"{stream.name}.a"] * 3, "data": [b"x", bytes(2 << 20), b"y"]}
    error = refused(stream, columns)
    assert error.code == "JETSYNC_TOO_LARGE"
    assert f"{2 << 20} bytes" in str(error)
    assert stream.messages == 0


def test_a_window_in_bytes_is_kept(new_stream):
    stream = new_stream()
    columns = {"subject": [f"{stream.name}.a"] * 50, "data": [bytes([i]) * 5000 for i in range(50)]}
    assert publish(stream, columns, maxInflightBytes="10k").stored == 50
    assert stream.messages == 50
