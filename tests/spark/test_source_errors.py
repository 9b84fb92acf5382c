"""What goes wrong while planning or reading reaches the driver as a sentence with a code."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.errors import PySparkException

import jetsync
from jetsync.server import NatsServer
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.reader import JetStreamReader
from jetsync.spark.stream_reader import JetStreamStreamReader
from jetsync.spark.versions import ReadAllAvailable
from tests.spark.test_stream_reader import SCHEMA

MAY = ["$JS.API.STREAM.INFO.S", "$JS.API.STREAM.MSG.GET.S", "_INBOX.>"]
USERS: dict[str, dict[str, Any]] = {
    "admin": {},
    "stranger": {"permissions": {"publish": {"deny": "$JS.API.STREAM.INFO.>"}}},
    "planner": {"permissions": {"publish": {"allow": MAY}}},
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with users of different rights, and a stream of ten messages."""
    users = [{"user": name, "password": "p", **rights} for name, rights in USERS.items()]
    folder = tmp_path_factory.mktemp("guarded")
    with NatsServer(store_dir=folder, config={"authorization": {"users": users}}) as server:
        with jetsync.connect(server.url, user="admin", password="p") as nc:
            js = nc.jetstream()
            js.create_stream(name="S", subjects=["s.>"])
            js.publish_many([("s.x", b"")] * 10).raise_for_failed()
        yield server


def options(server, user="admin", password="p", **more):
    return {
        "servers": server.url,
        "stream": "S",
        "user": user,
        "password": password,
        "requestTimeout": "500ms",
        "serverUnavailableTimeout": "2s",
        **more,
    }


def batch_reader(given):
    return JetStreamReader(ReadOptions.parse(given, streaming=False), SCHEMA)


def stream_reader(given):
    return JetStreamStreamReader(ReadOptions.parse(given, streaming=True), SCHEMA)


def failure(action):
    with pytest.raises(SparkSourceError) as caught:
        action()
    return caught.value


@pytest.mark.parametrize(
    "user", [{"user": "stranger"}, {"password": "wrong"}], ids=["permission", "password"]
)
def test_who_may_not_look_at_the_stream_is_told_while_planning(guarded, user):
    for action in (
        batch_reader(options(guarded, **user)).partitions,
        stream_reader(options(guarded, **user)).initialOffset,
    ):
        assert failure(action).code == "JETSYNC_ACCESS_DENIED"


def test_who_may_plan_but_not_read_is_told_by_the_executor(guarded):
    made = batch_reader(options(guarded, user="planner"))
    (part,) = made.partitions()
    assert failure(lambda: list(made.read(part))).code == "JETSYNC_ACCESS_DENIED"


def test_an_error_of_an_executor_reaches_the_driver_with_its_code(spark, guarded):
    frame = spark.read.format("jetstream").options(**options(guarded, user="planner")).load()
    with pytest.raises(PySparkException, match=r"\[JETSYNC_ACCESS_DENIED\] reading S from 1 to"):
        frame.collect()


def test_a_schema_that_the_source_does_not_have_is_refused(spark, guarded):
    for schema, code in (
        ("body binary", "JETSYNC_UNKNOWN_COLUMN"),
        ("seq string", "JETSYNC_COLUMN_TYPE"),
    ):
        frame = spark.read.format("jetstream").schema(schema).options(**options(guarded)).load()
        with pytest.raises(PySparkException, match=rf"\[{code}\]"):
            frame.collect()


@pytest.fixture
def own_server(tmp_path):
    with NatsServer(store_dir=tmp_path) as server:
        with jetsync.connect(server.url) as nc:
            js = nc.jetstream()
            js.create_stream(name="S", subjects=["s.>"])
            js.publish_many([("s.x", b"")] * 10).raise_for_failed()
        yield server


def plain(server, patience):
    return {
        "servers": server.url,
        "stream": "S",
        "requestTimeout": "500ms",
        "serverUnavailableTimeout": patience,
    }


def test_planning_waits_for_a_server_that_is_away_for_a_moment(own_server):
    batch, stream = (
        batch_reader(plain(own_server, "30s")),
        stream_reader(plain(own_server, "30s")),
    )
    start = stream.initialOffset()
    own_server.kill()
    back = threading.Timer(0.5, own_server.start)
    back.start()
    end = stream.latestOffset(start, ReadAllAvailable())
    back.join()
    assert [part.range.last for part in stream.partitions(start, end)] == [10]
    assert [part.range.last for part in batch.partitions()] == [10]


def test_planning_gives_up_with_a_code_when_the_server_stays_away(own_server):
    batch, stream = (
        batch_reader(plain(own_server, "300ms")),
        stream_reader(plain(own_server, "300ms")),
    )
    start = stream.initialOffset()
    own_server.kill()
    for action in (batch.partitions, lambda: stream.latestOffset(start, ReadAllAvailable())):
        error = failure(action)
        assert error.code == "JETSYNC_SERVER_UNAVAILABLE"
        assert "serverUnavailableTimeout" in str(error)


@pytest.mark.parametrize(("strategy", "begin"), [("latest", 10), ("error", None)])
def test_a_start_later_than_everything_is_the_head_or_refused_in_streams_too(
    own_server, strategy, begin
):
    given = plain(own_server, "5s")
    made = stream_reader(
        {
            **given,
            "startingTimestamp": "2100-01-01T00:00:00Z",
            "startingTimestampStrategy": strategy,
        }
    )
    if begin is None:
        assert failure(made.initialOffset).code == "JETSYNC_INVALID_OPTION"
    else:
        assert made.initialOffset()["streams"]["S"]["seq"] == begin
