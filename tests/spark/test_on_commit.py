"""onCommit: what Spark has finished with is given up, nothing else, and an outage ends no query."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest

import jetsync
from jetsync.server import NatsServer
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.versions import ReadAllAvailable
from tests.spark.streaming import Collected, needs_limits, read_stream, run_available
from tests.spark.test_stream_reader import planned, reader, travel

ALL = ReadAllAvailable()
QUEUE: dict[str, Any] = {"retention": "workqueue", "allow_direct": True}


def end_of_batch(made):
    """Plan one batch with everything there is; returns its end as Spark would give it back."""
    return travel(made.latestOffset(travel(made.initialOffset()), ALL))


def held(stream):
    """The sequences that a stream holds."""
    state = stream.js.stream(stream.name).info(deleted_details=True).state
    gone = set(state.deleted or ())
    return [seq for seq in range(state.first_seq, state.last_seq + 1) if seq not in gone]


def anchored(stream, name="", **options):
    return reader(
        stream, onCommit="ack", anchorConsumer=name or "a" + uuid.uuid4().hex[:8], **options
    )


def code_of(action):
    with pytest.raises(SparkSourceError) as caught:
        action()
    return caught.value.code


# -- purge ---------------------------------------------------------------------------------------


def test_purge_removes_what_was_read_and_nothing_later(new_stream):
    stream = new_stream(10, **QUEUE)
    made = reader(stream, onCommit="purge")
    end = end_of_batch(made)
    stream.fill(3)
    assert stream.messages == 13
    made.commit(end)
    assert held(stream) == [11, 12, 13]
    made.commit(end)
    assert held(stream) == [11, 12, 13]


def test_purge_removes_only_what_passes_the_filters(new_stream):
    stream = new_stream(**QUEUE)
    for token in ("a", "b", "c"):
        stream.fill(3, token)
    made = reader(stream, onCommit="purge", filterSubjects=f"{stream.name}.a,{stream.name}.c")
    made.commit(end_of_batch(made))
    assert held(stream) == [4, 5, 6]


def test_a_batch_is_read_again_after_a_restart_because_it_was_not_committed(new_stream):
    stream = new_stream(10, **QUEUE)
    first = reader(stream, onCommit="purge")
    start, end = travel(first.initialOffset()), end_of_batch(first)
    again = reader(stream, onCommit="purge")
    assert planned(again, start, end) == list(range(1, 11))


def test_a_query_goes_on_behind_what_it_purged(new_stream):
    stream = new_stream(10, **QUEUE)
    first = reader(stream, onCommit="purge")
    end = end_of_batch(first)
    first.commit(end)
    stream.fill(5)
    again = reader(stream, onCommit="purge")
    assert planned(again, end, again.latestOffset(end, ALL)) == [11, 12, 13, 14, 15]


@pytest.mark.parametrize(
    "config",
    [{}, {"retention": "interest"}, {**QUEUE, "deny_purge": True}],
    ids=["limits", "interest", "deny_purge"],
)
def test_purge_is_refused_where_others_may_want_the_messages(new_stream, config):
    made = reader(new_stream(**config), onCommit="purge")
    assert code_of(made.initialOffset) == "JETSYNC_UNSUPPORTED_STREAM"


def test_a_stream_made_again_is_left_alone(js, new_stream):
    stream = new_stream(5, **QUEUE)
    made = reader(stream, onCommit="purge")
    end = end_of_batch(made)
    js.delete_stream(stream.name)
    stream.create()
    stream.fill(5)
    made.commit(end)
    assert stream.messages == 5


# -- the anchor ----------------------------------------------------------------------------------


def test_an_anchor_keeps_messages_until_they_are_committed(js, new_stream):
    stream = new_stream(retention="interest")
    made = anchored(stream, "keeper")
    made.initialOffset()
    stream.fill(10)
    end = end_of_batch(made)
    stream.fill(2)
    assert held(stream) == list(range(1, 13))
    made.commit(end)
    assert held(stream) == [11, 12]
    assert js.consumer(stream.name, "keeper").info().num_pending == 2


def test_what_other_consumers_still_want_stays(js, new_stream):
    stream = new_stream(retention="interest")
    js.create_consumer(stream.name, durable_name="slow", filter_subjects=[f"{stream.name}.b"])
    made = anchored(stream)
    made.initialOffset()
    stream.fill(3, "a")
    stream.fill(3, "b")
    made.commit(end_of_batch(made))
    assert held(stream) == [4, 5, 6]


def test_commits_that_are_repeated_or_older_move_nothing(js, new_stream):
    stream = new_stream(retention="interest")
    made = anchored(stream, "keeper")
    made.initialOffset()
    stream.fill(5)
    early = end_of_batch(made)
    stream.fill(5)
    late = travel(made.latestOffset(early, ALL))
    made.commit(late)
    stream.fill(1)
    for end in (early, late, early):
        made.commit(end)
    assert js.consumer(stream.name, "keeper").info().ack_floor.stream_seq == 10
    assert held(stream) == [11]


def test_a_restart_finds_the_anchor_again(new_stream):
    stream = new_stream(retention="interest")
    first = anchored(stream, "keeper")
    first.initialOffset()
    stream.fill(5)
    end = end_of_batch(first)
    first.commit(end)
    stream.fill(2)
    again = anchored(stream, "keeper")
    assert planned(again, end, again.latestOffset(end, ALL)) == [6, 7]


def test_an_anchor_that_another_query_moves_too_is_told(new_stream, caplog):
    """The slower query is told, and its next batch fails instead of leaving messages out."""
    stream = new_stream(retention="interest")
    slow, fast = anchored(stream, "shared"), anchored(stream, "shared")
    slow.initialOffset()
    stream.fill(5)
    end = end_of_batch(slow)
    slow.commit(end)
    assert "anchorConsumer of its own" not in caplog.text
    stream.fill(5)
    fast.commit(travel(fast.latestOffset(end, ALL)))
    slow.commit(end)
    assert "stands at 10, beyond 5" in caplog.text
    stream.fill(1)
    assert code_of(lambda: slow.latestOffset(end, ALL)) == "JETSYNC_DATA_LOSS"


def test_an_anchor_on_an_ordinary_stream_shows_the_lag(js, new_stream):
    stream = new_stream(10)
    made = anchored(stream, "keeper")
    end = end_of_batch(made)
    stream.fill(4)
    made.commit(end)
    assert js.consumer(stream.name, "keeper").info().num_pending == 4
    assert stream.messages == 14


def test_an_anchor_releases_nothing_from_a_work_queue_so_it_is_refused(new_stream):
    made = anchored(new_stream(**QUEUE))
    assert code_of(made.initialOffset) == "JETSYNC_UNSUPPORTED_STREAM"


def test_a_consumer_that_cannot_be_the_anchor_is_refused(js, new_stream):
    stream = new_stream(3)
    js.create_consumer(stream.name, durable_name="filtered", filter_subjects=[f"{stream.name}.x"])
    js.create_consumer(stream.name, durable_name="none", ack_policy="none")
    js.create_consumer(stream.name, durable_name="busy").fetch(1, timeout=5)
    for name in ("filtered", "none", "busy"):
        assert code_of(anchored(stream, name).initialOffset) == "JETSYNC_OPTION_CONFLICT"
    same = anchored(stream, "filtered", filterSubjects=f"{stream.name}.x")
    assert same.initialOffset()


def test_an_anchor_that_was_deleted_is_told_and_ends_no_query(js, new_stream, caplog):
    stream = new_stream(3)
    made = anchored(stream, "keeper")
    end = end_of_batch(made)
    js.delete_consumer(stream.name, "keeper")
    made.commit(end)
    assert "[JETSYNC_API_ERROR]" in caplog.text


# -- outages and permissions ---------------------------------------------------------------------


@pytest.fixture
def own_queue(tmp_path):
    """A work queue on a server that a test may kill, and the options of a query that purges it."""
    with NatsServer(store_dir=tmp_path) as server:
        with jetsync.connect(server.url) as nc:
            nc.jetstream().create_stream(name="Q", subjects=["q.>"], **QUEUE)
            nc.jetstream().publish_many([("q.x", b"")] * 10).raise_for_failed()
        yield server


class Source:
    """What :func:`reader` wants to know of a stream."""

    def __init__(self, server):
        self.read_options = {"servers": server.url, "stream": "Q"}


def patient(server, seconds):
    return reader(
        Source(server),
        onCommit="purge",
        requestTimeout="500ms",
        serverUnavailableTimeout=seconds,
    )


def in_the_queue(server):
    with jetsync.connect(server.url) as nc:
        return nc.jetstream().stream("Q").info().state.messages


def test_a_commit_waits_for_a_server_that_comes_back(own_queue):
    made = patient(own_queue, "30s")
    end = end_of_batch(made)
    own_queue.kill()
    back = threading.Timer(0.5, own_queue.start)
    back.start()
    made.commit(end)
    back.join()
    assert in_the_queue(own_queue) == 0


def test_a_commit_that_outlasts_the_patience_is_made_up_for_by_the_next(own_queue):
    made = patient(own_queue, "300ms")
    end = end_of_batch(made)
    own_queue.kill()
    made.commit(end)
    own_queue.start()
    assert in_the_queue(own_queue) == 10
    patient(own_queue, "20s").commit(end)
    assert in_the_queue(own_queue) == 0


def test_a_commit_that_is_not_permitted_says_so(tmp_path, caplog):
    users = [
        {"user": "admin", "password": "a"},
        {
            "user": "reader",
            "password": "r",
            "permissions": {"publish": {"deny": "$JS.API.STREAM.PURGE.>"}},
        },
    ]
    with NatsServer(store_dir=tmp_path, config={"authorization": {"users": users}}) as server:
        with jetsync.connect(server.url, user="admin", password="a") as nc:
            js = nc.jetstream()
            js.create_stream(name="Q", subjects=["q.>"], **QUEUE)
            js.publish_many([("q.x", b"")] * 3).raise_for_failed()
        made = reader(Source(server), onCommit="purge", user="reader", password="r")
        end = end_of_batch(made)
        made.commit(end)
        assert "[JETSYNC_ACCESS_DENIED]" in caplog.text


# -- with Spark ----------------------------------------------------------------------------------


@needs_limits
def test_a_query_empties_a_work_queue_behind_itself_one_batch_later(spark, new_stream, tmp_path):
    stream = new_stream(10, **QUEUE)
    frame = read_stream(spark, stream, maxOffsetsPerTrigger=4, onCommit="purge")
    run_available(frame, first := Collected(), tmp_path)
    assert first.rows == list(range(1, 11))
    # Spark tells that a batch is done when it plans the next one, so never of the last.
    assert held(stream) == [9, 10]
    stream.fill(3)
    run_available(frame, second := Collected(), tmp_path)
    assert second.rows == [11, 12, 13]
    assert held(stream) == [11, 12, 13]


@needs_limits
def test_a_query_with_an_anchor_reads_all_of_an_interest_stream(spark, js, new_stream, tmp_path):
    stream = new_stream(retention="interest")
    frame = read_stream(
        spark, stream, maxOffsetsPerTrigger=4, onCommit="ack", anchorConsumer="spark"
    )
    run_available(frame, Collected(), tmp_path)
    stream.fill(10)
    run_available(frame, sink := Collected(), tmp_path)
    assert sink.rows == list(range(1, 11))
    assert held(stream) == [9, 10]
