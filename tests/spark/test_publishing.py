"""Publishing the rows of one task to a server that goes away."""

from __future__ import annotations

import threading
import weakref

import pyarrow as pa
import pytest

import jetsync
from jetsync.spark import publishing
from jetsync.spark.connection import shared
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.publishing import RowPublisher, make_ids
from jetsync.spark.sink_columns import SinkColumns
from jetsync.spark.write_options import WriteOptions
from tests.harness.conditioner import Link

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


# -- the batches of one task -----------------------------------------------------------------------


@pytest.fixture
def pieces(monkeypatch):
    """Batches of a hundred rows, each published as it comes."""
    monkeypatch.setattr(publishing, "JOINED_ROWS", 100)

    def make(count, before=lambda number: None):
        for number in range(count):
            before(number)
            yield rows(100 * number, 100)

    return make


def stored(server, count):
    with jetsync.connect(server.url) as nc:
        handle = nc.jetstream().stream("S")
        assert handle.info().state.messages == count
        return [handle.get_msg(seq).data for seq in range(1, count + 1)]


def in_order(count):
    return [b"%d" % i for i in range(count)]


def test_the_next_batch_is_taken_while_rows_of_the_one_before_are_not_confirmed(
    fresh_server, stream, pieces
):
    """The window stays open across all batches of a task: no round trip between two of them."""
    with Link(fresh_server.url) as link:

        def before(number):
            if number == 1:
                link.stall(way="to_client")
            if number == 3:
                link.resume()

        target = publisher(fresh_server, servers=link.url, publishTimeout="20s")
        done = target.publish_all(pieces(5, before))
    assert (done.stored, done.duplicates, done.first_seq) == (500, 0, 1)
    assert stored(fresh_server, 500) == in_order(500)


def test_a_server_that_is_killed_between_two_batches_has_every_row_once(
    fresh_server, stream, pieces
):
    def before(number):
        if number == 3:
            fresh_server.kill()
            fresh_server.start()

    done = publisher(fresh_server).publish_all(pieces(6, before))
    assert (done.stored, done.first_seq) == (600, 1)
    assert sorted(stored(fresh_server, 600), key=int) == in_order(600)


def test_a_connection_that_is_closed_between_two_batches_is_made_anew(fresh_server, stream, pieces):
    target = publisher(fresh_server)

    def before(number):
        if number == 3:
            shared(WriteOptions.parse({"servers": fresh_server.url}).link).close()

    done = target.publish_all(pieces(6, before))
    assert (done.stored, done.first_seq) == (600, 1)
    assert sorted(stored(fresh_server, 600), key=int) == in_order(600)


def test_an_error_of_the_rows_is_the_tasks_error(fresh_server, stream, pieces):
    def before(number):
        if number == 2:
            raise ZeroDivisionError("in a batch")

    with pytest.raises(ZeroDivisionError, match="in a batch"):
        publisher(fresh_server).publish_all(pieces(5, before))


def test_a_row_that_cannot_be_stored_ends_the_task_before_more_batches_are_taken(
    fresh_server, stream, pieces
):
    taken = []
    with jetsync.connect(fresh_server.url) as nc:
        nc.jetstream().stream(stream).info()
        nc.jetstream().update_stream(name="S", subjects=["s.>"], max_msgs=250, discard="new")
    target = publisher(
        fresh_server, serverUnavailableTimeout="1s", publishRetries="0", maxInflight="100"
    )
    with pytest.raises(SparkSourceError, match="maximum messages exceeded"):
        target.publish_all(pieces(50, taken.append))
    assert len(taken) <= 5
    assert stored(fresh_server, 250) == in_order(250)


def test_batches_whose_rows_are_confirmed_are_not_kept(fresh_server, stream, pieces, monkeypatch):
    """However long a task is, it holds the batches of its window only."""
    normalise = SinkColumns.normalise
    alive = []
    kept = []

    def watched(self, batch, **how):
        made = normalise(self, batch, **how)
        alive.append(weakref.ref(made))
        return made

    monkeypatch.setattr(SinkColumns, "normalise", watched)
    target = publisher(fresh_server, dedup="none", maxInflight="100")
    batches = pieces(40, lambda _: kept.append(sum(one() is not None for one in alive)))
    assert target.publish_all(batches).stored == 4000
    assert max(kept) <= 4
