"""The permissions that the operator's page lists are enough, each row for the use it names."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import jetsync
from jetsync.server import NatsServer
from jetsync.spark import SparkSourceError, consume_partition, destinations, kv, kv_lookup
from jetsync.spark.connection import link_of
from jetsync.spark.marker import Marker, Size, make_bucket, mark_done, read_marker
from jetsync.spark.publishing import RowPublisher, make_ids
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.stream_reader import JetStreamStreamReader
from jetsync.spark.target import look_at_target
from jetsync.spark.versions import ReadAllAvailable
from jetsync.spark.write_options import WriteOptions
from jetsync.spark.writer import JetStreamWriter
from tests.harness.waiting import wait_until
from tests.spark.test_range_read import SCHEMA, rest, whole

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "spark-operating.md"
USER = {"user": "spark", "password": "s"}
PLANNING, LEADER = "planning", "the leader's answer"
READING = (PLANNING, LEADER, "reading small ranges", "reading large ranges")


def rows_of_the_page():
    """The subjects of each row of the table, by what it says that they are for."""
    text = PAGE.read_text().split("| publish | for |")[1].split("\n\n")[0]
    return {
        purpose.strip(): re.findall(r"`([^`]+)`", subjects)
        for subjects, purpose in re.findall(r"^\| (`.*) \| (.*) \|$", text, re.MULTILINE)
    }


def subjects_for(*purposes):
    table = rows_of_the_page()
    found = []
    for purpose in purposes:
        (key,) = [name for name in table if name.startswith(purpose)]
        found += table[key]
    return found


class Job:
    """A server on which one user may do what some rows of the page allow."""

    def __init__(self, folder, purposes, *, without=None, **config):
        allowed = [subject for subject in subjects_for(*purposes) if subject != without]
        users = [
            {"user": "admin", "password": "a"},
            {
                **USER,
                "permissions": {"publish": {"allow": allowed}, "subscribe": {"allow": "_INBOX.>"}},
            },
        ]
        self.server = NatsServer(store_dir=folder, config={"authorization": {"users": users}})
        self.config = config

    def __enter__(self):
        self.server.__enter__()
        self.nc = jetsync.connect(self.server.url, user="admin", password="a")
        self.js = self.nc.jetstream()
        self.js.create_stream(name="ORDERS", subjects=["orders.>"], **self.config)
        self.js.create_stream(name="RESULTS", subjects=["results.>"])
        self.js.publish_many([("orders.x", b"")] * 10, msg_id=None).raise_for_failed()
        self.options = {
            "servers": self.server.url,
            "requestTimeout": "3s",
            "publishTimeout": "3s",
            "serverUnavailableTimeout": "3s",
            **USER,
        }
        self.link = {k: v for k, v in self.options.items() if k != "publishTimeout"}
        destinations._known.clear()
        return self

    def __exit__(self, *_):
        self.nc.close()
        self.server.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("method", "purposes"),
    [("direct", READING[:3]), ("consumer", (PLANNING, LEADER, "reading large ranges"))],
)
def test_reading(tmp_path, method, purposes):
    with Job(tmp_path, purposes, allow_direct=True) as job:
        batches = whole(job.js, "ORDERS", readMethod=method, **job.link)
        # The leader says that there is nothing where nothing came.
        for seq in (5, 10):
            job.js.stream("ORDERS").delete_msg(seq)
        assert rest(batches) == [1, 2, 3, 4, 6, 7, 8, 9]


def publish(job, columns, batch, **options):
    given = WriteOptions.parse({**job.options, **options})
    sink = SinkColumns(frozenset(columns), given.subject)
    look_at_target(given, sink)
    return RowPublisher(given, sink, make_ids(given, "q", "0", 0)).publish(batch)


ROW = {"subject": ["results.x"], "data": [b"1"]}


def test_writing(tmp_path):
    with Job(tmp_path, ("writing",)) as job:
        batch = pa.RecordBatch.from_pydict(ROW)
        assert publish(job, ROW, batch).stored == 1
        assert publish(job, ROW, batch, publishStream="RESULTS").duplicates == 1
        fixed = pa.RecordBatch.from_pydict({"data": [b"2"]})
        assert publish(job, {"data": 1}, fixed, subject="results.y").stored == 1


def test_rows_that_expect_a_last_sequence_and_are_repeated(tmp_path):
    with Job(tmp_path, ("writing", "only with columns `expected_last_...`")) as job:
        batch = pa.RecordBatch.from_pydict({**ROW, "expected_last_sequence": [0]})
        names = {*ROW, "expected_last_sequence"}
        assert publish(job, names, batch).duplicates == 0
        assert publish(job, names, batch).duplicates == 1


def test_overwriting(tmp_path):
    from pyspark.sql.types import StructType

    with Job(tmp_path, ("writing", "only with `onOverwrite=purge`")) as job:
        options = WriteOptions.parse(
            {**job.options, "onOverwrite": "purge", "publishStream": "RESULTS"}
        )
        job.js.publish("results.old", b"")
        schema = StructType().add("subject", "string").add("data", "binary")
        writer = JetStreamWriter(options, schema, True)
        writer.look_at_target()
        message = writer.write(iter([pa.RecordBatch.from_pydict(ROW)]))
        writer.commit([message])
        assert job.js.stream("RESULTS").info().state.messages == 1


@pytest.mark.parametrize("may_create", [True, False])
def test_the_commit_marker(tmp_path, may_create):
    with Job(tmp_path, ("only with `commitMarker=true`",)) as job:
        if not may_create:
            job.js.create_key_value(bucket="jetsync_spark")
        link = link_of(job.link)
        make_bucket(link, 1)
        assert read_marker(link, "q") is None
        mark_done(link, "q", Marker(3, "c", Size(1, 1)))
        mark_done(link, "q", Marker(4, "c", Size(1, 1)))
        assert read_marker(link, "q") == Marker(4, "c", Size(1, 1))


@pytest.mark.parametrize(
    ("use", "config", "options"),
    [
        ("purge", {"retention": "workqueue", "allow_direct": True}, {}),
        ("ack", {"retention": "interest"}, {"anchorConsumer": "anchor"}),
    ],
)
def test_releasing_what_is_done(tmp_path, caplog, use, config, options):
    with Job(tmp_path, (*READING, f"only with `onCommit={use}`"), **config) as job:
        given = {**job.link, "stream": "ORDERS", "onCommit": use, **options}
        reader = JetStreamStreamReader(ReadOptions.parse(given, streaming=True), SCHEMA)
        start = reader.initialOffset()
        job.js.publish_many([("orders.y", b"")] * 5, msg_id=None).raise_for_failed()
        reader.commit(reader.latestOffset(start, ReadAllAvailable()))
        assert job.js.stream("ORDERS").info().state.messages == 0
    assert "onCommit" not in caplog.text


def test_key_value_look_ups(tmp_path):
    with Job(tmp_path, ("only with `kv(",)) as job:
        job.js.create_key_value(bucket="customers").put("one", b"1")
        assert kv("customers", job.link).get("one").value == b"1"
        assert kv_lookup("customers", ["one", "two"], job.link) == {"one": b"1"}


def test_working_messages_off(tmp_path):
    with Job(tmp_path, ("only with `consume_partition`",)) as job:
        workers = job.js.create_consumer("ORDERS", durable_name="w", ack_policy="explicit")
        seen: list[int] = []
        consume = consume_partition(
            stream="ORDERS",
            consumer="w",
            work=lambda message: seen.append(message.metadata.stream_seq),
            max_messages=10,
            **job.link,
        )
        list(consume(iter(())))
        assert seen == list(range(1, 11))
        wait_until(lambda: workers.info().ack_floor.stream_seq == 10)


def test_a_task_that_may_not_acknowledge_fails(tmp_path):
    """Else it would tell of messages as done that come again and again."""
    purposes = ("only with `consume_partition`",)
    with Job(tmp_path, purposes, without="$JS.ACK.ORDERS.>") as job:
        job.js.create_consumer("ORDERS", durable_name="w", ack_policy="explicit")
        consume = consume_partition(
            stream="ORDERS", consumer="w", work=lambda message: None, **job.link
        )
        with pytest.raises(SparkSourceError, match=r"JS\.ACK\.ORDERS") as failed:
            list(consume(iter(())))
    assert failed.value.code == "JETSYNC_ACCESS_DENIED"
