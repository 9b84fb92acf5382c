"""The ordered consumer: the server consumer underneath, and when reading cannot go on."""

from __future__ import annotations

import gc
import itertools
import threading
from datetime import datetime, timedelta

import pytest

import jetsync
from jetsync._threads import ThreadPool
from jetsync.server import NatsServer
from tests.harness.conditioner import Link
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until
from tests.jetstream.messages import sequences
from tests.jetstream.test_ordered import LONG, fill, lose


def names(stream):
    return set(stream.consumer_names())


# -- the server consumer underneath ---------------------------------------------------------------


def test_the_server_consumer_costs_little_and_is_deleted(js, stream):
    fill(js, stream, 50)
    with stream.ordered_consumer(name_prefix="reader-", metadata={"who": "me"}) as ordered:
        info = ordered.info()
        config = info.config
        assert info.name == ordered.name == ordered.cached_info.name
        assert info.name.startswith("reader-")
        assert (config.ack_policy, config.max_deliver, config.num_replicas) == ("none", 1, 1)
        assert (config.mem_storage, config.inactive_threshold) == (True, 300.0)
        assert config.metadata["who"] == "me"
        assert ordered.lag().num_pending == 50
        for _ in range(5):
            ordered.fetch(1, timeout=LONG)
            ordered.messages(max_messages=4).next(timeout=LONG)
            lose(js, ordered)
        assert ordered.info().name == ordered.name  # a lost one is replaced to answer
        # However many there were, only the last one is left.
        wait_until(lambda: names(stream) == {ordered.name}, timeout=LONG)
    wait_until(lambda: not names(stream), timeout=LONG)
    with pytest.raises(jetsync.ConfigError, match="closed"):
        ordered.fetch(1)
    ordered.close()


def test_both_questions_with_which_it_begins_are_on_their_way_together(js, stream, nc):
    with (
        Link(nc.connected_url) as link,
        jetsync.connect(link.url) as far,
        nc.subscribe(f"$JS.API.STREAM.INFO.{stream.name}") as informed,
        nc.subscribe(f"$JS.API.CONSUMER.CREATE.{stream.name}.>") as created,
    ):
        nc.flush(timeout=LONG)
        begins = far.jetstream(timeout=LONG)
        link.stall(way="to_client")
        try:
            with ThreadPool("opener") as pool:
                opened = pool.submit(begins.ordered_consumer, stream.name)
                for asked in (informed, created):
                    asked.next(timeout=LONG)  # no answer has come to the other one
                link.resume()
                opened.result(LONG).close()
        finally:
            link.resume()


def test_one_that_was_never_closed_goes_with_its_last_reference(js, stream):
    ordered = stream.ordered_consumer()
    assert names(stream) == {ordered.name}
    del ordered
    gc.collect()
    wait_until(lambda: not names(stream), timeout=LONG)


def test_reading_goes_on_after_a_long_pause(js, stream):
    """The server ends a consumer without pulls; the next read makes another."""
    fill(js, stream, 20)
    with stream.ordered_consumer(inactive_threshold=0.2) as ordered:
        assert len(ordered.fetch(5, timeout=LONG)) == 5
        wait_until(lambda: not names(stream), timeout=LONG)
        assert sequences(ordered.fetch(15, timeout=LONG)) == list(range(6, 21))


def test_the_streams_limit_for_inactive_consumers_is_kept(js):
    stream = js.create_stream(
        name="LIMITED", subjects=["LIMITED.>"], consumer_limits={"inactive_threshold": 10.0}
    )
    try:
        with stream.ordered_consumer() as ordered:
            assert ordered.info().config.inactive_threshold == 10.0
    finally:
        stream.delete()


def test_opening_asks_again_when_its_request_is_swallowed(url, js, stream):
    """As a cluster swallows some right after an election: with time left of its timeout."""
    fill(js, stream, 3)
    swallowed: list[str] = []

    def relay(msg):
        operation = msg.subject.removeprefix("RELAY.")
        if operation.startswith("CONSUMER.CREATE") and not swallowed:
            swallowed.append(operation)
        else:
            middle.publish(f"$JS.API.{operation}", msg.data, reply=msg.reply)

    with jetsync.connect(url) as middle, jetsync.connect(url) as nc:
        middle.subscribe("RELAY.>", callback=relay)
        middle.flush()
        far = nc.jetstream(api_prefix="RELAY")
        with far.ordered_consumer(stream.name, timeout=LONG) as ordered:
            assert len(swallowed) == 1
            assert sequences(ordered.fetch(3, timeout=LONG)) == [1, 2, 3]
            assert ordered.resets == 0


# -- when it cannot go on -------------------------------------------------------------------------


def test_a_deleted_stream_ends_reading(js, stream):
    other = js.create_stream(name="GONE", subjects=["GONE.>"], storage="memory")
    fill(js, other, 3)
    with other.ordered_consumer() as ordered:
        assert len(ordered.fetch(3, timeout=LONG)) == 3
        other.delete()
        with pytest.raises(jetsync.StreamNotFoundError):
            ordered.fetch(1, timeout=LONG)
        with pytest.raises(jetsync.StreamNotFoundError):
            ordered.messages().next(timeout=LONG)


def test_a_stream_that_was_made_again_is_told(js, stream):
    config = {"name": "AGAIN", "subjects": ["AGAIN.>"], "storage": "memory"}
    other = js.create_stream(**config)
    fill(js, other, 3)
    with other.ordered_consumer() as ordered:
        assert len(ordered.fetch(3, timeout=LONG)) == 3
        other.delete()
        other = js.create_stream(**config)
        fill(js, other, 10)
        with pytest.raises(jetsync.JetStreamError, match="made again"):
            ordered.fetch(1, timeout=LONG)
    other.delete()


@pytest.mark.timed
def test_resets_are_tried_for_ever_or_as_often_as_wanted(js, nc, stream, in_time):
    """The place of the lost server consumer is taken, so that no new one can be made."""
    other = js.create_stream(name="NARROW", subjects=["NARROW.>"], max_consumers=1)
    try:
        fill(js, other, 10)
        for attempts in (-1, 3):
            ordered = other.ordered_consumer(max_reset_attempts=attempts)
            assert len(ordered.fetch(3, timeout=LONG)) == 3
            lose(js, ordered)
            taken = other.create_consumer(durable_name="taken")
            if attempts == 3:
                with pytest.raises(jetsync.JetStreamError, match="reset 4 times in a row"):
                    ordered.fetch(1, timeout=LONG)
            else:
                with in_time(1.0), pytest.raises(jetsync.PullUnansweredError):
                    ordered.fetch(1, timeout=1.0)
                assert isinstance(nc.last_error, jetsync.LimitsExceededError)
            taken.delete()
            if attempts < 0:
                assert sequences(ordered.fetch(7, timeout=LONG)) == list(range(4, 11))
            ordered.close()
            wait_until(lambda: not names(other), timeout=LONG)
    finally:
        other.delete()


def test_a_closed_connection_ends_reading(url, js, stream):
    with jetsync.connect(url) as nc:
        ordered = nc.jetstream().ordered_consumer(stream.name)
        messages = ordered.messages()
        helper = threading.Timer(0.3, nc.close)
        helper.start()
        with pytest.raises(jetsync.ConnectionClosedError):
            list(messages)
        helper.join()
        with pytest.raises(jetsync.ConnectionClosedError):
            ordered.fetch(1, timeout=LONG)
        ordered.close()


def test_missed_heartbeats_are_told_and_reading_goes_on():
    """The server stands still for longer than two heartbeats (promise P4)."""
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name="S", subjects=["S.>"])
        fill(js, stream, 5)
        warnings: list[Exception] = []
        with stream.ordered_consumer() as ordered:
            messages = ordered.messages(heartbeat=0.5, on_warning=warnings.append)
            assert sequences(itertools.islice(messages, 5)) == [1, 2, 3, 4, 5]
            server.pause()
            with pytest.raises(jetsync.TimeoutError):
                messages.next(timeout=2.5)
            assert any("heartbeat" in str(warning) for warning in warnings)
            server.resume()
            fill(js, stream, 5, start=5)
            assert sequences(itertools.islice(messages, 5)) == [6, 7, 8, 9, 10]
            assert ordered.resets >= 1
            messages.stop()


def test_times_without_a_zone_are_refused(stream):
    with pytest.raises(jetsync.ConfigError):
        stream.ordered_consumer(
            deliver_policy="by_start_time", opt_start_time=datetime.now() - timedelta(hours=1)
        )


def test_a_callback_ends_with_the_reason(js, stream):
    other = js.create_stream(name="ENDING", subjects=["ENDING.>"], storage="memory")
    fill(js, other, 3)
    got: list[int] = []
    with other.ordered_consumer() as ordered:
        context = ordered.consume(lambda msg: got.append(msg.metadata.stream_seq))
        wait_until(lambda: len(got) == 3, timeout=LONG)
        other.delete()
        assert context.wait(LONG)
        assert isinstance(context.error, jetsync.StreamNotFoundError)
    assert got == [1, 2, 3]


@pytest.mark.timed
def test_every_call_keeps_its_time_while_the_network_is_silent(server, js, stream, in_time):
    """Promise P2, and nothing is missed afterwards."""
    fill(js, stream, 10)
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url) as nc:
        ordered = nc.jetstream().ordered_consumer(stream.name)
        assert sequences(ordered.fetch(4, timeout=LONG)) == [1, 2, 3, 4]
        proxy.blackhole()
        with in_time(0.2), pytest.raises(jetsync.TimeoutError):
            ordered.fetch(4, timeout=0.2)
        with in_time(0.2), pytest.raises(jetsync.TimeoutError):
            ordered.fetch(4, timeout=0.2, eager=True)
        with in_time(0.2), pytest.raises(jetsync.TimeoutError):
            ordered.next(timeout=0.2)
        messages = ordered.messages()
        with in_time(0.2), pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.2)
        with in_time(0.2):
            assert len(next(messages.batches(timeout=0.2))) == 0
        with in_time(0):
            messages.stop()
        with in_time(0.2), pytest.raises(jetsync.TimeoutError):
            ordered.info(timeout=0.2)
        proxy.heal()
        assert sequences(ordered.fetch(6, timeout=LONG)) == [5, 6, 7, 8, 9, 10]
        ordered.close()
