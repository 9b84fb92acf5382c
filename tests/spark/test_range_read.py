"""Reading one range against a real server that does not always behave."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql.types import StructType

import jetsync
from jetsync import Consumer
from jetsync._threads import library_threads
from jetsync.jetstream.access import PiecewisePull
from jetsync.server import NatsServer
from jetsync.spark import delivery
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.range_read import read_range
from jetsync.spark.ranges import SequenceRange
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.schema import Layout
from tests.harness.conditioner import Link
from tests.harness.tap import Tap
from tests.harness.waiting import wait_until

SCHEMA = StructType().add("seq", "long").add("data", "binary")


def whole(js, name, schema=SCHEMA, **options):
    given = {"stream": name, "fetchBatch": "50", **options}
    parsed = ReadOptions.parse(given, streaming=False)
    info = js.stream(name).info()
    wanted = SequenceRange(name, info.created.isoformat(), 1, info.state.last_seq)
    return read_range(parsed, Layout(schema), wanted)


def rest(batches):
    return [seq for batch in batches for seq in batch.column("seq").to_pylist()]


@pytest.fixture(params=["consumer", "direct"])
def method(request):
    """How the messages come: what a range promises does not depend on it."""
    return request.param


@pytest.fixture
def own_server(tmp_path, method):
    """A server that a test may kill, and the batches of a stream of a thousand messages in it."""
    with NatsServer(store_dir=tmp_path) as server:
        with jetsync.connect(server.url) as nc:
            js = nc.jetstream()
            js.create_stream(name="S", subjects=["s.>"], allow_direct=True)
            js.publish_many([("s.x", b"%d" % i) for i in range(1000)]).raise_for_failed()
            batches = whole(
                js,
                "S",
                servers=server.url,
                readMethod=method,
                serverUnavailableTimeout="2s",
                requestTimeout="300ms",
            )
        yield server, batches


def test_a_server_restart_in_the_middle_loses_and_repeats_nothing(own_server):
    server, batches = own_server
    seen = rest([next(batches)])
    server.kill()
    server.start()
    seen += rest(batches)
    assert seen == list(range(1, 1001))


def test_a_consumer_deleted_by_another_client_is_made_again(js, new_stream):
    stream = new_stream(1000)
    batches = whole(js, stream.name, servers=stream.url)
    seen = rest([next(batches)])
    for name in list(js.consumer_names(stream.name)):
        js.delete_consumer(stream.name, name)
    seen += rest(batches)
    assert seen == list(range(1, 1001))


def test_no_consumer_is_left_behind(js, new_stream):
    stream = new_stream(200)
    rest(whole(js, stream.name, servers=stream.url))
    unfinished = whole(js, stream.name, servers=stream.url)
    next(unfinished)
    unfinished.close()
    wait_until(lambda: list(js.consumer_names(stream.name)) == [])


def test_a_consumer_shows_whose_it_is_and_goes_by_itself(js, new_stream):
    """A task that was killed leaves it: the server removes it half a minute after its last pull."""
    stream = new_stream(1000)
    batches = whole(js, stream.name, servers=stream.url, connectionName="nightly")
    next(batches)
    (name,) = js.consumer_names(stream.name)
    config = js.stream(stream.name).consumer(name).info().config
    assert name.startswith("jetsync-spark-")
    assert config.inactive_threshold == 30
    assert config.metadata is not None
    assert config.metadata["jetsync.spark.name"] == "nightly"
    batches.close()


def test_a_consumer_is_made_while_the_leader_is_asked_about_the_stream(js, new_stream):
    stream = new_stream(200)
    with Link(stream.url) as link:
        options = {"servers": link.url, "readMethod": "consumer"}
        assert rest(whole(js, stream.name, **options)) == list(range(1, 201))
        link.stall(way="to_client")
        with ThreadPoolExecutor(1) as thread:
            seen = thread.submit(rest, whole(js, stream.name, **options))
            try:
                # No answer has come to the reader yet.
                wait_until(lambda: len(list(js.consumer_names(stream.name))) == 1, timeout=20)
            finally:
                link.resume()
            assert seen.result(timeout=30) == list(range(1, 201))
        wait_until(lambda: list(js.consumer_names(stream.name)) == [])


def test_a_consumer_that_was_made_for_a_range_without_messages_is_removed(js, new_stream):
    stream = new_stream(200)
    js.stream(stream.name).purge()
    given = {"failOnDataLoss": "false", "servers": stream.url, "readMethod": "consumer"}
    options = ReadOptions.parse({"stream": stream.name, **given}, streaming=False)
    created = js.stream(stream.name).info().created.isoformat()
    wanted = SequenceRange(stream.name, created, 1, 200)
    assert rest(read_range(options, Layout(SCHEMA), wanted)) == []
    wait_until(lambda: list(js.consumer_names(stream.name)) == [])


def test_trimming_while_reading_is_noticed(js, new_stream, method):
    stream = new_stream(1000, allow_direct=True)
    batches = whole(js, stream.name, servers=stream.url, readMethod=method)
    seen = rest([next(batches)])
    js.stream(stream.name).purge(seq=900)
    with pytest.raises(SparkSourceError) as caught:
        for batch in batches:
            seen += batch.column("seq").to_pylist()
    assert caught.value.code == "JETSYNC_DATA_LOSS"
    # What came before was whole: the loss is told before anything beyond it is given out.
    assert seen == list(range(1, len(seen) + 1))


def test_deleting_inside_while_reading_is_a_hole_not_loss(js, new_stream, method):
    stream = new_stream(1000, allow_direct=True)
    batches = whole(js, stream.name, servers=stream.url, readMethod=method)
    seen = rest([next(batches)])
    for seq in (990, 1000):
        js.stream(stream.name).delete_msg(seq)
    seen += rest(batches)
    assert seen == [seq for seq in range(1, 1001) if seq not in (990, 1000)]


def test_a_stream_made_again_while_reading_is_noticed(js, new_stream, method):
    stream = new_stream(1000, allow_direct=True)
    batches = whole(js, stream.name, servers=stream.url, readMethod=method)
    next(batches)
    js.delete_stream(stream.name)
    stream.create()
    stream.fill(1000)
    with pytest.raises(SparkSourceError) as caught:
        rest(batches)
    assert caught.value.code == "JETSYNC_STREAM_RECREATED"


def test_a_server_that_stays_away_ends_in_a_coded_error(own_server):
    server, batches = own_server
    next(batches)
    server.kill()
    with pytest.raises(SparkSourceError) as caught:
        rest(batches)
    assert caught.value.code == "JETSYNC_SERVER_UNAVAILABLE"
    server.start()


@contextlib.contextmanager
def lagging(url, **misleading):
    """Let the first consumer of a read answer like one on a replica that lags; gives the URL to
    read from, and what was asked for."""
    made: list[dict[str, object]] = []

    def create(frame):
        if b".CONSUMER.CREATE." not in frame.subject:
            return frame.raw
        body = json.loads(frame.body)
        made.append(body)
        if len(made) == 1:
            body["config"].update(misleading)
        return frame.with_body(json.dumps(body).encode()).raw

    with Tap(url) as tap:
        tap.to_server = create
        yield tap.url, made


def test_a_consumer_that_says_there_is_nothing_more_is_not_believed(js, new_stream):
    stream = new_stream(200)
    with lagging(stream.url, opt_start_seq=201) as (url, made):
        assert rest(whole(js, stream.name, servers=url)) == list(range(1, 201))
    assert len(made) == 2


def test_a_consumer_that_promises_and_stays_silent_is_replaced(js, new_stream):
    stream = new_stream(200)
    later = datetime.now(timezone.utc) + timedelta(minutes=5)
    with lagging(stream.url, pause_until=later.isoformat()) as (url, made):
        assert rest(whole(js, stream.name, servers=url)) == list(range(1, 201))
    assert len(made) == 2


def test_a_range_whose_end_is_gone_ends_when_the_leader_says_so(js, new_stream, method):
    stream = new_stream(200, allow_direct=True)
    batches = whole(js, stream.name, servers=stream.url, readMethod=method)
    for seq in range(150, 201):
        js.stream(stream.name).delete_msg(seq)
    assert rest(batches) == list(range(1, 150))


def test_a_range_is_one_pull_whose_rows_are_given_out_while_more_come(js, new_stream, monkeypatch):
    """What comes first is converted, and Spark works on it, while the rest is received."""
    stream = new_stream(80)
    monkeypatch.setattr(delivery, "LEAST_PIECE", 10)
    taken = []
    take = PiecewisePull.take
    monkeypatch.setattr(
        PiecewisePull, "take", lambda pull, least: taken.append((pull, least)) or take(pull, least)
    )
    options = {"servers": stream.url, "readMethod": "consumer", "fetchBatch": "1000"}
    batches = list(whole(js, stream.name, **options))
    assert rest(batches) == list(range(1, 81))
    assert len({id(pull) for pull, _ in taken}) == 1
    left = 80
    for (_, least), batch in zip(taken, batches, strict=True):
        assert least == max(left // 2, 10)
        assert batch.num_rows >= min(least, left)
        left -= batch.num_rows


def test_the_next_pull_is_on_its_way_while_the_rows_of_one_are_worked_on(js, new_stream):
    """Else the server would rest as long as Spark works on the last rows of each pull."""
    stream = new_stream(80)
    options = {"servers": stream.url, "readMethod": "consumer", "fetchBatch": "40"}
    batches = whole(js, stream.name, **options)
    assert next(batches).num_rows == 40

    def pending():
        return [info.num_pending for info in js.stream(stream.name).consumers()]

    wait_until(lambda: pending() == [0], message="all is delivered")
    assert rest(batches) == list(range(41, 81))


def test_times_are_received_in_the_unit_of_spark(js, new_stream, method, monkeypatch):
    """Else each of them would be divided once more."""
    stream = new_stream(20, allow_direct=True)
    received, convert = [], Layout.convert

    def note(layout, batch, name):
        received.append(batch.schema.field("timestamp").type.unit)
        return convert(layout, batch, name)

    monkeypatch.setattr(Layout, "convert", note)
    schema = StructType().add("seq", "long").add("timestamp", "timestamp")
    options = {"servers": stream.url, "readMethod": method}
    assert rest(whole(js, stream.name, schema, **options)) == list(range(1, 21))
    assert set(received) == {"us"}


def test_a_read_needs_no_thread_of_its_own(js, new_stream):
    """The consumer is made, and messages are received, beside the thread that reads the range."""
    stream = new_stream(200)
    before = library_threads()
    batches = whole(js, stream.name, servers=stream.url, readMethod="consumer")
    next(batches)
    assert {thread.name for thread in library_threads() - before} == set()


class Clock:
    """The time as the room of connections has it."""

    sleep = staticmethod(time.sleep)

    def __init__(self):
        self.now = time.monotonic()

    def monotonic(self):
        return self.now


def test_a_range_that_takes_long_asks_for_no_sign_of_life(js, new_stream, monkeypatch):
    """What it receives is one; each that is asked for costs a round trip."""
    stream, clock, asked = new_stream(100), Clock(), []
    room = importlib.import_module("jetsync.spark.connection")
    monkeypatch.setattr(room, "time", clock)
    monkeypatch.setattr(jetsync.Connection, "flush", lambda nc, *_: asked.append(nc))
    batches = whole(js, stream.name, servers=stream.url, readMethod="consumer")
    assert rest([next(batches)]) == list(range(1, 51))
    clock.now += 60
    assert rest(batches) == list(range(51, 101))
    assert asked == []


def test_a_range_closes_its_consumer_itself(js, new_stream, monkeypatch):
    """A handle that is dropped is closed by the timer's thread, beside the next range's start."""
    stream = new_stream(20)
    left: list[bool] = []
    gc.collect()  # consumers of other tests
    monkeypatch.setattr(Consumer, "__del__", lambda self: left.append(self._shared.needs_closing))
    batches = whole(js, stream.name, servers=stream.url, readMethod="consumer")
    assert rest(batches) == list(range(1, 21))
    del batches
    gc.collect()
    assert left == [False]


def test_reading_an_interest_stream_takes_nothing_from_its_consumers(js, new_stream):
    stream = new_stream(retention="interest")
    slow = js.create_consumer(stream.name, durable_name="slow")
    stream.fill(100)
    assert rest(whole(js, stream.name, servers=stream.url)) == list(range(1, 101))
    assert stream.messages == 100
    assert slow.info().num_pending == 100
