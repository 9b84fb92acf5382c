"""A subject that leads nowhere is told at once and nothing is stored; also what streams lack."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import jetsync
from jetsync.server import NatsServer
from jetsync.spark import destinations, reason
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.publishing import RowPublisher, make_ids
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.write_options import WriteOptions

LONG = "60s"


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(destinations, "_known", {})


def publisher(url, *extra, **options):
    given = WriteOptions.parse({"servers": url, "publishTimeout": LONG, **options})
    return RowPublisher(
        given, SinkColumns(frozenset({"subject", "data", *extra})), make_ids(given, "q", "0", 0)
    )


def rows(*subjects):
    return pa.RecordBatch.from_pydict(
        {"subject": list(subjects), "data": [b"%d" % number for number in range(len(subjects))]}
    )


@pytest.mark.parametrize("dedup", ["content", "none"])
def test_a_wrong_subject_is_told_long_before_a_confirmation_is_late(new_stream, dedup):
    stream = new_stream()
    good = [f"{stream.name}.x"] * 9_999
    began = time.monotonic()
    with pytest.raises(
        SparkSourceError, match=r"no stream takes subject .nowhere\.at\.all."
    ) as caught:
        publisher(stream.url, dedup=dedup).publish(rows(*good, "nowhere.at.all"))
    assert caught.value.code == "JETSYNC_NO_SUBJECT"
    assert time.monotonic() - began < 20, "it waited for a confirmation that cannot come"
    assert stream.messages == 0


def test_a_fixed_subject_whose_stream_went_after_planning_is_told_by_the_task(new_stream):
    stream = new_stream()
    subject = f"{stream.name}.x"
    stream.js.delete_stream(stream.name)
    given = {"servers": stream.url, "subject": subject, "serverUnavailableTimeout": LONG}
    options = WriteOptions.parse({**given, "publishTimeout": "1s"})
    columns = SinkColumns(frozenset({"data"}), subject)
    batch = pa.RecordBatch.from_pydict({"data": [b"a", b"b"]})
    began = time.monotonic()
    with pytest.raises(SparkSourceError) as caught:
        RowPublisher(options, columns, make_ids(options, "q", "0", 0)).publish(batch)
    assert caught.value.code == "JETSYNC_NO_SUBJECT"
    assert time.monotonic() - began < 40, "it waited for a stream that is not there"


def test_subjects_of_several_streams_are_published(new_stream):
    one, two = new_stream(), new_stream()
    done = publisher(one.url).publish(rows(f"{one.name}.a", f"{two.name}.b", f"{one.name}.c"))
    assert (done.stored, done.duplicates) == (3, 0)
    assert (one.messages, two.messages) == (2, 1)


def test_a_stream_that_forgets_ids_too_early_is_refused_before_a_row_is_stored(new_stream):
    stream = new_stream(duplicate_window=1)
    with pytest.raises(SparkSourceError) as caught:
        publisher(stream.url, minDuplicateWindow="error:30m").publish(rows(f"{stream.name}.x"))
    assert caught.value.code == "JETSYNC_DUPLICATE_WINDOW"
    assert stream.messages == 0


def test_a_setting_that_a_column_needs_is_missed_before_a_row_is_stored(new_stream):
    stream = new_stream()
    batch = rows(f"{stream.name}.x").append_column("ttl", pa.array(["1m"]))
    with pytest.raises(SparkSourceError, match="allow_msg_ttl") as caught:
        publisher(stream.url, "ttl").publish(batch)
    assert caught.value.code == "JETSYNC_STREAM_CONFIG"
    assert stream.messages == 0


def test_what_another_write_of_the_process_led_to_is_none_of_this_one(new_stream):
    other, stream = new_stream(duplicate_window=1), new_stream()
    publisher(other.url).publish(rows(f"{other.name}.x"))
    done = publisher(stream.url, minDuplicateWindow="error:90s").publish(rows(f"{stream.name}.x"))
    assert done.stored == 1


ACCOUNTS = {
    "accounts": {
        "OWNER": {
            "jetstream": "enabled",
            "users": [{"user": "owner", "password": "o"}],
            "exports": [{"service": "orders.>"}],
        },
        "GUEST": {
            "jetstream": "enabled",
            "users": [{"user": "guest", "password": "g"}],
            "imports": [{"service": {"account": "OWNER", "subject": "orders.>"}}],
        },
        "PLAIN": {
            "users": [{"user": "plain", "password": "p"}],
            "imports": [{"service": {"account": "OWNER", "subject": "orders.>"}}],
        },
    }
}


@pytest.mark.parametrize(("user", "password"), [("guest", "g"), ("plain", "p")])
@pytest.mark.parametrize("dedup", ["content", "none"])
def test_a_stream_of_another_account_takes_every_row_once(tmp_path, user, password, dedup):
    """The API of the publisher's account knows no stream for these subjects."""
    with (
        NatsServer(store_dir=tmp_path, config=ACCOUNTS) as server,
        jetsync.connect(server.url, user="owner", password="o") as nc,
    ):
        js = nc.jetstream()
        js.create_stream(name="O", subjects=["orders.>"])
        target = publisher(server.url, user=user, password=password, dedup=dedup)
        done = target.publish(rows(*[f"orders.{number}" for number in range(300)]))
        assert (done.stored, done.duplicates) == (300, 0)
        assert target.publish(rows("orders.1", "orders.1")).stored == 2
        assert js.stream("O").info().state.messages == 302


TRACE = """\
An error occurred while calling o84.save.
: org.apache.spark.SparkException: Job aborted due to stage failure
Traceback (most recent call last):
  File "/x/worker.py", line 9, in main
    process()
{error}
\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            "jetsync.spark.errors.SparkOptionError: [JETSYNC_MISSING_OPTION] option 'stream' is x",
            "[JETSYNC_MISSING_OPTION] option 'stream' is x",
        ),
        ("ValueError: a word", "ValueError: a word"),
    ],
)
def test_reason_finds_the_sentence_in_what_spark_says(raised, said):
    assert reason(RuntimeError(TRACE.format(error=raised))) == said
    assert reason(TRACE.format(error=raised)) == said


def test_reason_says_what_a_process_of_spark_that_starts_late_means():
    """Spark says no more, and its limit of ten seconds is no setting."""
    said = "[STREAM_FAILED] Query [id = 1] terminated with exception: {}\n=== Streaming Query ===\n"
    found = reason(RuntimeError(said.format("Python worker failed to connect back.")))
    assert found.startswith("Python worker failed to connect back: ")
    assert "10 seconds" in found
    assert "goes on from its checkpoint" in found


@pytest.mark.parametrize(
    ("raised", "way_out"),
    [
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: jetstream. Make sure the",
            "set PYSPARK_PYTHON",
        ),
        (
            "requirement failed: jetstream does not support Update mode. SQLSTATE: XXKST",
            "inside foreachBatch",
        ),
    ],
)
def test_reason_says_what_to_do_about_what_spark_says_of_the_format(raised, way_out):
    said = f"An error occurred while calling o33.load.\n: org.apache.spark.X: {raised}\n\tat org"
    assert way_out in reason(RuntimeError(said))
    other = said.replace("jetstream", "kafka")
    assert reason(other) == other.splitlines()[0]


def test_reason_of_anything_else_is_its_first_line():
    assert reason(ValueError("one\ntwo")) == "one"
    assert reason(ValueError()) == "ValueError"
