"""Reading ranges by direct gets: every row comes once, from leader, follower or mirror."""

from __future__ import annotations

import contextlib
import uuid
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

import jetsync
from jetsync.server import NatsServer
from jetsync.spark import delivery
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.range_read import read_range
from jetsync.spark.ranges import SequenceRange
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.schema import Layout
from tests.harness.insides import connection_of
from tests.harness.older import older_server
from tests.spark.test_range_read import rest, whole

EVERYTHING = (
    StructType()
    .add("subject", "string")
    .add("data", "binary")
    .add("headers", MapType(StringType(), ArrayType(StringType())))
    .add("stream", "string")
    .add("seq", "long")
    .add("timestamp", "timestamp")
)


def rows(stream, **options):
    """All columns of a stream."""
    given = {**stream.read_options, **options}
    info = stream.js.stream(stream.name).info()
    wanted = SequenceRange(stream.name, info.created.isoformat(), 1, info.state.last_seq)
    batches = read_range(ReadOptions.parse(given, streaming=False), Layout(EVERYTHING), wanted)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def direct_stream(new_stream):
    return lambda count=0, **config: new_stream(count, allow_direct=True, **config)


@contextlib.contextmanager
def made_consumers(js, stream):
    """Collect the names of the consumers that are made meanwhile."""
    seen: list[str] = []
    nc = connection_of(js)
    advisories = nc.subscribe(f"$JS.EVENT.ADVISORY.CONSUMER.CREATED.{stream.name}.*")
    nc.flush()
    yield seen
    # The server sends what it has to say before it answers.
    js.stream(stream.name).info()
    nc.flush()
    while advisories.pending_messages:
        seen.append(advisories.next(timeout=5).subject.rpartition(".")[2])
    advisories.unsubscribe()


@pytest.mark.parametrize("filters", ["", "{n}.a", "{n}.*", "{n}.a,{n}.c", "{n}.a,{n}.d.>,none.*"])
@pytest.mark.parametrize("fetch", ["3", "10000"])
def test_both_methods_give_the_same_rows(js, direct_stream, filters, fetch):
    stream = direct_stream()
    for number in range(30):
        token = ("a", "b", "c", "d.x")[number % 4]
        headers = {"K": ["v", str(number)]} if number % 3 else None
        js.publish(f"{stream.name}.{token}", b"%d" % number, headers=headers, msg_id=None)
    for seq in (2, 7, 8, 29, 30):
        js.stream(stream.name).delete_msg(seq)
    options = {"filterSubjects": filters.format(n=stream.name), "fetchBatch": fetch}
    by_consumer = rows(stream, readMethod="consumer", **options)
    assert rows(stream, readMethod="direct", **options) == by_consumer
    assert len(by_consumer) > 5
    assert {row["timestamp"].tzinfo for row in by_consumer} != {None}
    assert by_consumer[0]["timestamp"] < datetime.now(timezone.utc)


PARTIAL_MIRRORS: dict[str, dict[str, Any]] = {
    "trimmed": {"max_msgs": 100},
    "filtered": {"mirror": {"filter_subject": "*.odd"}},
    "late": {"mirror": {"opt_start_seq": 500}},
}


@pytest.mark.parametrize("method", ["direct", "auto"])
@pytest.mark.parametrize("kind", PARTIAL_MIRRORS)
def test_a_mirror_that_holds_a_part_and_answers_too_hides_no_rows(js, direct_stream, kind, method):
    """With ``mirror_direct`` the server lets either of both answer, by chance."""
    stream = direct_stream()
    report = js.publish_many(
        [(f"{stream.name}.{'odd' if i % 2 else 'even'}", b"") for i in range(1, 1001)]
    )
    report.raise_for_failed()
    mirror = "M" + uuid.uuid4().hex[:10]
    config = {**PARTIAL_MIRRORS[kind]}
    origin = {"name": stream.name, **config.pop("mirror", {})}
    js.create_stream(name=mirror, mirror=origin, mirror_direct=True, allow_direct=True, **config)
    try:
        for _ in range(8):
            seen = rest(
                whole(js, stream.name, servers=stream.url, readMethod=method, fetchBatch="300")
            )
            assert seen == list(range(1, 1001))
    finally:
        js.delete_stream(mirror)


def test_a_mirror_that_lags_hides_no_rows(js, direct_stream):
    """Right after the acknowledgement a mirror may not have a message yet, and say so."""
    stream = direct_stream()
    mirror = "M" + uuid.uuid4().hex[:10]
    js.create_stream(
        name=mirror, mirror={"name": stream.name}, mirror_direct=True, allow_direct=True
    )
    try:
        for round_ in range(1, 61):
            stream.fill(5)
            seen = rest(whole(js, stream.name, servers=stream.url, readMethod="direct"))
            assert seen == list(range(1, 5 * round_ + 1))
    finally:
        js.delete_stream(mirror)


def test_small_ranges_are_read_without_a_consumer_and_large_ones_with(
    js, direct_stream, monkeypatch
):
    stream = direct_stream(200)
    with made_consumers(js, stream) as for_small:
        assert len(rest(whole(js, stream.name, servers=stream.url))) == 200
    monkeypatch.setattr(delivery, "DIRECT_UP_TO", 199)
    with made_consumers(js, stream) as for_large:
        assert len(rest(whole(js, stream.name, servers=stream.url))) == 200
    assert (len(for_small), len(for_large)) == (0, 1)


def test_a_stream_without_direct_gets_is_read_by_a_consumer(js, new_stream):
    stream = new_stream(10)
    with made_consumers(js, stream) as made:
        assert len(rest(whole(js, stream.name, servers=stream.url))) == 10
    assert len(made) == 1


def refusal(js, stream, **options):
    with pytest.raises(SparkSourceError) as caught:
        rest(whole(js, stream.name, servers=stream.url, **options))
    return caught.value


def test_direct_gets_that_a_stream_does_not_allow_are_refused(js, new_stream):
    error = refusal(js, new_stream(3), readMethod="direct")
    assert error.code == "JETSYNC_UNSUPPORTED_STREAM"
    assert "allow_direct=true" in str(error)


def test_reading_a_work_queue_takes_nothing_from_it(js, direct_stream):
    stream = direct_stream(100, retention="workqueue")
    worker = js.create_consumer(stream.name, durable_name="worker", ack_policy="explicit")
    assert rest(whole(js, stream.name, servers=stream.url)) == list(range(1, 101))
    assert stream.messages == 100
    batch = worker.fetch(10, timeout=5)
    for msg in batch:
        msg.ack_sync()
    assert rest(whole(js, stream.name, servers=stream.url)) == list(range(11, 101))


def test_a_work_queue_that_cannot_be_read_without_taking_is_refused(js, new_stream, direct_stream):
    for stream, options in (
        (new_stream(3, retention="workqueue"), {}),
        (direct_stream(3, retention="workqueue"), {"readMethod": "consumer"}),
    ):
        assert refusal(js, stream, **options).code == "JETSYNC_UNSUPPORTED_STREAM"
        assert stream.messages == 3


def test_without_permission_for_direct_gets_a_consumer_does_it(tmp_path):
    config = {
        "authorization": {
            "users": [
                {"user": "admin", "password": "a"},
                {
                    "user": "reader",
                    "password": "r",
                    "permissions": {"publish": {"deny": "$JS.API.DIRECT.>"}},
                },
            ]
        }
    }
    with (
        NatsServer(store_dir=tmp_path, config=config) as server,
        jetsync.connect(server.url, user="admin", password="a") as nc,
    ):
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s.>"], allow_direct=True)
        js.publish_many([("s.x", b"")] * 10).raise_for_failed()
        given = {"servers": server.url, "user": "reader", "password": "r"}
        assert rest(whole(js, "S", **given)) == list(range(1, 11))
        with pytest.raises(SparkSourceError) as caught:
            rest(whole(js, "S", readMethod="direct", **given))
        assert caught.value.code == "JETSYNC_ACCESS_DENIED"


def test_a_server_without_direct_gets_of_many_messages_is_read_by_consumers(caplog):
    """The stream allows direct gets, but before 2.11 each of them is one message."""
    with older_server("2.10.25") as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        created = js.create_stream(name="S", subjects=["s.>"], allow_direct=True)
        js.publish_many([("s.x", b"")] * 100).raise_for_failed()
        assert created.cached_info.config.allow_direct
        assert rest(whole(js, "S", servers=server.url)) == list(range(1, 101))
        assert [record for record in caplog.records if record.levelname == "WARNING"] == []
        with pytest.raises(SparkSourceError, match=r"needs nats-server 2\.11"):
            rest(whole(js, "S", servers=server.url, readMethod="direct"))
