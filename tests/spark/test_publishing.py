"""Publishing the rows of one task to a server that goes away."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import jetsync
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.publishing import RowPublisher, make_ids
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.write_options import WriteOptions

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))


def publisher(server, **options):
    given = {"servers": server.url, "subject": "s.x", "publishTimeout": "1s", **options}
    parsed = WriteOptions.parse(given)
    columns = SinkColumns(frozenset({"data", "headers"}), "s.x")
    return RowPublisher(parsed, columns, make_ids(parsed, "query", "0", 0))


def rows(first, count):
    values = [b"%d" % i for i in range(first, first + count)]
    headers = [[("K", [value.decode()])] for value in values]
    return pa.RecordBatch.from_pydict({"data": values, "headers": pa.array(headers, HEADERS)})


@pytest.fixture
def stream(fresh_server):
    with jetsync.connect(fresh_server.url) as nc:
        nc.jetstream().create_stream(name="S", subjects=["s.>"])
    return "S"


def test_a_server_that_comes_back_has_every_row_once(fresh_server, stream):
    target = publisher(fresh_server)
    target.publish(rows(0, 500))
    fresh_server.kill()
    back = threading.Timer(1.5, fresh_server.start)
    back.start()
    try:
        target.publish(rows(500, 500))
    finally:
        back.join()
    with jetsync.connect(fresh_server.url) as nc:
        handle = nc.jetstream().stream(stream)
        found = [handle.get_msg(seq) for seq in range(1, 1001)]
    assert [message.data for message in found] == [b"%d" % i for i in range(1000)]
    assert all(message.headers["K"].encode() == message.data for message in found)


def test_a_server_that_stays_away_fails_the_task_with_a_code(fresh_server, stream):
    target = publisher(fresh_server, serverUnavailableTimeout="1s", publishRetries="1")
    target.publish(rows(0, 10))
    fresh_server.kill()
    with pytest.raises(SparkSourceError) as caught:
        target.publish(rows(10, 10))
    assert caught.value.code in ("JETSYNC_PUBLISH_FAILED", "JETSYNC_SERVER_UNAVAILABLE")


def test_a_full_stream_fails_the_task_with_the_words_of_the_server(fresh_server):
    with jetsync.connect(fresh_server.url) as nc:
        nc.jetstream().create_stream(name="S", subjects=["s.>"], max_msgs=5, discard="new")
    target = publisher(fresh_server, serverUnavailableTimeout="1s", publishRetries="1")
    with pytest.raises(SparkSourceError, match="maximum messages exceeded") as caught:
        target.publish(rows(0, 10))
    assert caught.value.code == "JETSYNC_PUBLISH_FAILED"


def test_a_row_that_is_too_large_with_its_headers_fails_the_task_and_is_named(fresh_server, stream):
    target = publisher(fresh_server)
    large = pa.RecordBatch.from_pydict(
        {
            "data": [b"1", b"x" * 1_048_500],
            "headers": pa.array([None, [("K", ["v" * 99])]], HEADERS),
        }
    )
    with pytest.raises(SparkSourceError, match=r"1 row\(s\).*s\.x") as caught:
        target.publish(large)
    assert caught.value.code == "JETSYNC_TOO_LARGE"


def test_publishing_the_same_rows_again_stores_nothing_twice(fresh_server, stream):
    first = publisher(fresh_server).publish(rows(0, 300))
    again = publisher(fresh_server).publish(rows(0, 300))
    assert (first.stored, first.duplicates) == (300, 0)
    assert (again.stored, again.duplicates) == (300, 300)
