"""jetsync.testing: faults, what is collected, assertions, messages without a server."""

from __future__ import annotations

import time

import pytest

import jetsync
from jetsync import ConfigError, JetStreamMsg
from jetsync.testing import (
    Faults,
    assert_acked,
    assert_published,
    collect,
    make_message,
    wait_until,
)


def test_a_made_message_notes_what_a_handler_says():
    def handler(msg: JetStreamMsg) -> None:
        if msg.metadata.num_delivered > 2:
            msg.term("enough")
        elif msg.headers and msg.headers["Kind"] == "late":
            msg.nak(5)
        else:
            msg.in_progress()
            msg.ack_sync()

    made = [
        make_message(b"a", headers={"Kind": "x"}),
        make_message(b"b", headers={"Kind": "late"}),
        make_message(b"c", num_delivered=3, stream="S", seq=7, consumer="C", domain="hub"),
    ]
    assert made[0].outcome is None
    for msg in made:
        handler(msg)
        msg.ack()  # of no effect any more
    assert [(msg.outcome, msg.outcome_delay) for msg in made] == [
        ("ack", None),
        ("nak", 5.0),
        ("term", None),
    ]
    assert all(msg.is_acked for msg in made)
    about = made[2].metadata
    assert (about.stream, about.stream_seq, about.consumer, about.domain) == ("S", 7, "C", "hub")
    with pytest.raises(ConfigError, match="num_deliverd"):
        make_message(num_deliverd=1)


def test_what_is_published_is_collected(url: str):
    with jetsync.connect(url) as nc, collect(nc, "kit.>") as collected:
        for number in range(3):
            nc.publish(f"kit.{number}", b"%d" % number)
        collected.wait_for(3)
        assert collected.subjects == ["kit.0", "kit.1", "kit.2"]
        assert collected.data == [b"0", b"1", b"2"]
        with pytest.raises(AssertionError, match="3 messages came within"):
            collected.wait_for(4, timeout=0.1)


def test_assertions_about_streams_and_consumers_say_what_is_wrong(url: str):
    with jetsync.connect(url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name="KIT", subjects=["kit-js.>"], storage="memory")
        try:
            consumer = stream.create_consumer(durable_name="c")
            assert_published(js, "kit-js.>", count=0, timeout=0.1)
            js.publish("kit-js.a", b"1")
            js.publish("kit-js.b", b"2")
            (msg,) = assert_published(js, "kit-js.a", data=b"1")
            assert_published(js, "kit-js.*", count=2, since=msg.metadata.timestamp)
            with pytest.raises(AssertionError, match="has 2 messages in stream 'KIT', not 1"):
                assert_published(js, "kit-js.>", timeout=0.1)
            with pytest.raises(AssertionError, match="0 messages with data"):
                assert_published(js, "kit-js.a", data=b"2", timeout=0.1)
            with pytest.raises(
                AssertionError, match="0 messages delivered and not acknowledged, 2 not delivered"
            ):
                assert_acked(consumer, timeout=0.1)
            for taken in consumer.fetch(2, timeout=5):
                taken.ack()
            assert_acked(consumer)
        finally:
            js.delete_stream("KIT")


def test_what_is_published_to_a_work_queue_is_found_and_stays_with_its_worker(url: str):
    with jetsync.connect(url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(
            name="KIT-QUEUE", subjects=["kit-queue.>"], retention="workqueue", storage="memory"
        )
        try:
            consumer = stream.create_consumer(durable_name="c")
            js.publish("kit-queue.a", b"1", headers={"Kind": "x"})
            js.publish("kit-queue.b", b"2")
            (msg,) = assert_published(js, "kit-queue.a", data=b"1")
            assert (msg.subject, msg.headers["Kind"]) == ("kit-queue.a", "x")
            assert (msg.metadata.stream, msg.metadata.stream_seq) == ("KIT-QUEUE", 1)
            assert_published(js, "kit-queue.*", count=2, since=msg.metadata.timestamp)
            for taken in consumer.fetch(2, timeout=5):
                taken.ack()
            assert_acked(consumer)
            assert_published(js, "kit-queue.>", count=0)
        finally:
            js.delete_stream("KIT-QUEUE")


def test_faults_hold_until_they_are_ended(url: str):
    with Faults(url) as faults, jetsync.connect(faults.url, reconnect_wait=0.01) as nc:
        faults.cut()
        wait_until(lambda: nc.stats.reconnects == 1)
        faults.stall()
        with pytest.raises(jetsync.TimeoutError):
            nc.flush(timeout=0.1)
        faults.resume()
        nc.flush(timeout=5)
        faults.delay(0.1)
        assert nc.rtt(timeout=5) >= 0.2
        faults.resume()
        faults.half_close()
        wait_until(lambda: nc.stats.reconnects == 2)
        faults.drop_after(0)
        with pytest.raises(jetsync.TimeoutError):
            nc.flush(timeout=0.1)
        faults.resume()
        faults.cut()
        wait_until(lambda: nc.stats.reconnects == 3)
        with pytest.raises(ConfigError):
            faults.bandwidth(0)


def test_a_narrow_link_takes_its_time(url: str):
    with Faults(url) as faults, jetsync.connect(faults.url) as nc:
        faults.bandwidth(200_000)
        begun = time.monotonic()
        nc.publish("kit.large", b"x" * 100_000)
        nc.flush(timeout=10)
        assert time.monotonic() - begun > 0.4
        faults.resume()


def test_waiting_ends_with_the_condition_or_says_that_it_did_not_hold():
    assert wait_until(lambda: [1], 1.0) == [1]
    with pytest.raises(AssertionError, match="never came"):
        wait_until(lambda: False, 0.02, "never came")
    looks = []
    with pytest.raises(AssertionError, match=r"looked more than once: True"):
        wait_until(
            lambda: looks.append(1), 0.02, lambda: f"looked more than once: {len(looks) > 1}"
        )


def test_a_handler_that_keeps_a_message_alive_needs_no_connection():
    msg = make_message(b"x")
    with msg.keep_alive() as kept:
        assert (msg.outcome, kept.interval) == ("in_progress", 10.0)
        msg.ack()
    assert msg.outcome == "ack"
    with msg.keep_alive(interval=1):
        assert msg.outcome == "ack"
    with pytest.raises(jetsync.ConfigError, match="interval"):
        msg.keep_alive(interval=-1)
