"""Option atomic=chunk: a chunk is stored as a whole, and repeating it stores nothing twice."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetsync.spark.errors import SparkSourceError
from jetsync.spark.publishing import RowPublisher, make_ids
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.write_options import WriteOptions


def publish(stream, columns, **options):
    """Publish columns to ``<stream>.x`` (unless there is a column subject) as a task does."""
    given = {**stream.write_options, "atomic": "chunk", **options}
    if "subject" not in columns:
        given["subject"] = f"{stream.name}.x"
    parsed = WriteOptions.parse(given)
    chosen = SinkColumns(frozenset(columns), parsed.subject)
    publisher = RowPublisher(parsed, chosen, make_ids(parsed, "query", "0", 0))
    return publisher.publish(pa.RecordBatch.from_pydict(columns))


def numbers(first, last):
    return {"data": [b"%d" % i for i in range(first, last)]}


def stored(stream):
    handle = stream.js.stream(stream.name)
    return [handle.get_msg(seq) for seq in range(1, stream.last_seq + 1)]


@pytest.fixture
def atomic_stream(new_stream):
    return new_stream(allow_atomic=True)


def test_rows_are_stored_in_chunks_of_a_thousand(atomic_stream):
    done = publish(atomic_stream, numbers(0, 2500))
    assert (done.stored, done.duplicates, done.first_seq) == (2500, 0, 1)
    messages = stored(atomic_stream)
    assert [message.data for message in messages] == numbers(0, 2500)["data"]
    batches = [message.headers["Nats-Batch-Id"] for message in messages]
    assert [batches.count(batch) for batch in dict.fromkeys(batches)] == [1000, 1000, 500]


def test_headers_and_subjects_come_along(atomic_stream):
    headers = pa.array([[("K", ["1", "2"])], None], pa.map_(pa.string(), pa.list_(pa.string())))
    subjects = [f"{atomic_stream.name}.a", f"{atomic_stream.name}.b"]
    publish(atomic_stream, {"subject": subjects, "data": ["x", None], "headers": headers})
    one, two = stored(atomic_stream)
    assert (one.subject, one.headers.get_all("K"), one.data) == (subjects[0], ["1", "2"], b"x")
    assert (two.subject, two.headers.get_all("K"), two.data) == (subjects[1], [], b"")


def test_a_repeated_task_stores_no_chunk_twice(atomic_stream):
    publish(atomic_stream, numbers(0, 1500))
    again = publish(atomic_stream, numbers(0, 1500))
    assert (again.stored, again.duplicates, again.first_seq) == (1500, 1500, 1)
    assert atomic_stream.messages == 1500


def test_a_repeated_task_whose_chunks_are_cut_elsewhere_stores_every_row_once(atomic_stream):
    publish(atomic_stream, numbers(0, 700))
    publish(atomic_stream, numbers(0, 1500))
    found = sorted(int(message.data) for message in stored(atomic_stream))
    assert found == list(range(1500))


def test_a_row_that_is_refused_keeps_its_chunk_out(atomic_stream):
    columns = {**numbers(0, 10), "expected_last_subject_sequence": [77] + [None] * 9}
    with pytest.raises(SparkSourceError) as caught:
        publish(atomic_stream, columns)
    assert caught.value.code == "JETSYNC_EXPECTATION_FAILED"
    assert atomic_stream.messages == 0


def test_a_row_that_expects_a_last_sequence_begins_a_chunk(atomic_stream):
    columns = {**numbers(0, 30), "expected_last_sequence": [0] + [None] * 19 + [20] + [None] * 9}
    assert publish(atomic_stream, columns).stored == 30
    messages = stored(atomic_stream)
    assert messages[19].headers["Nats-Batch-Id"] != messages[20].headers["Nats-Batch-Id"]
    again = publish(atomic_stream, columns)
    assert (again.duplicates, atomic_stream.messages) == (30, 30)


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        (numbers(0, 3), "JETSYNC_STREAM_CONFIG"),
        ({**numbers(0, 1), "subject": ["nothing.takes.this"]}, "JETSYNC_NO_SUBJECT"),
    ],
)
def test_what_cannot_be_stored_is_told_with_a_code(new_stream, columns, code):
    stream = new_stream()  # without allow_atomic
    with pytest.raises(SparkSourceError) as caught:
        publish(stream, columns, publishTimeout="500ms")
    assert caught.value.code == code
    assert stream.messages == 0
