"""The model deep dive, as far as publishing goes.

Sections: Stream Limits, Retention, and Policy; Message Deduplication; Exactly Once Semantics.
"""

from __future__ import annotations

import threading

import pytest

import jetsync
from tests.conformance.publish_room import room
from tests.harness.waiting import wait_until

# -- Message Deduplication -------------------------------------------------------------------------


def test_only_the_id_is_looked_at_not_the_body(url):
    with room(url) as (js, stream, name):
        acks = [js.publish(f"{name}.new", b"hello%d" % n, msg_id="1") for n in range(4)]
        assert [(ack.seq, ack.duplicate) for ack in acks] == [
            (1, False),
            (1, True),
            (1, True),
            (1, True),
        ]
        assert stream.info().state.messages == 1
        assert stream.get_msg(1).data == b"hello0"


def test_ids_are_of_the_stream_not_of_a_subject(url):
    with room(url) as (js, _, name):
        js.publish(f"{name}.a", msg_id="1")
        assert js.publish(f"{name}.b", msg_id="1").duplicate


def test_the_window_is_two_minutes_unless_said_otherwise(url):
    with room(url) as (_, stream, _name):
        assert stream.cached_info.config.duplicate_window == 120.0


def test_an_id_is_forgotten_after_the_window(url):
    with room(url, duplicate_window=0.2) as (js, stream, name):
        js.publish(f"{name}.a", msg_id="1")
        wait_until(lambda: not js.publish(f"{name}.a", msg_id="1").duplicate, timeout=20)
        assert stream.info().state.messages == 2


@pytest.mark.parametrize("way", ["publish", "publish_async", "publish_many", "publish_arrow"])
def test_every_way_of_publishing_has_automatic_ids(url, way):
    import pyarrow as pa

    with room(url) as (js, stream, name):
        if way == "publish":
            js.publish(f"{name}.a")
        elif way == "publish_async":
            js.publish_async(f"{name}.a").result()
        elif way == "publish_many":
            js.publish_many([(f"{name}.a", b"")]).raise_for_failed()
        else:
            js.publish_arrow(pa.record_batch({"data": [b""]}), subject=f"{name}.a")
        assert stream.get_msg(1).headers["Nats-Msg-Id"]


# -- Stream Limits, Retention, and Policy ----------------------------------------------------------


def test_a_full_stream_that_discards_new_messages_refuses_them(url):
    with room(url, max_msgs=2, discard="new") as (js, stream, name):
        js.publish(f"{name}.a")
        js.publish(f"{name}.a")
        for publish in (js.publish, lambda s: js.publish_async(s).result()):
            with pytest.raises(jetsync.NotStoredError) as caught:
                publish(f"{name}.a")
            assert isinstance(caught.value.__cause__, jetsync.LimitsExceededError)
        assert stream.info().state.messages == 2


def test_a_full_stream_that_discards_old_messages_takes_new_ones(url):
    with room(url, max_msgs=2) as (js, stream, name):
        assert [js.publish(f"{name}.a").seq for _ in range(5)] == [1, 2, 3, 4, 5]
        assert stream.info().state.first_seq == 4


def test_a_message_over_the_streams_size_is_refused(url):
    with room(url, max_msg_size=10) as (js, _, name):
        with pytest.raises(jetsync.MessageTooLargeError) as caught:
            js.publish(f"{name}.a", b"x" * 100, msg_id=None)
        assert isinstance(caught.value, jetsync.NotStoredError)


def test_a_sealed_stream_takes_nothing(url):
    with room(url) as (js, stream, name):
        js.publish(f"{name}.a")
        config = stream.info().config
        js.update_stream(name=name, subjects=config.subjects, storage="memory", sealed=True)
        with pytest.raises(jetsync.NotStoredError):
            js.publish(f"{name}.a")


# -- Exactly Once Semantics ------------------------------------------------------------------------


def test_ids_and_double_acknowledgements_make_exactly_once(url):
    """Publisher and consumer repeat what they are not sure of; each message is worked on once."""
    with room(url) as (js, stream, name):
        for n in range(50):
            for _ in range(1 + n % 3):
                js.publish(f"{name}.a", b"%d" % n, msg_id=str(n))
        consumer = stream.create_consumer(durable_name="C", ack_policy="explicit", ack_wait=1)
        done: list[bytes] = []
        while len(done) < 50:
            for msg in consumer.fetch(10, timeout=10):
                msg.ack_sync(10)
                done.append(msg.data)
        assert sorted(map(int, done)) == list(range(50))
        # Well behind the time of redelivery: nothing that was acknowledged comes again.
        threading.Event().wait(2)
        assert not consumer.fetch_no_wait(10)
        assert consumer.info().num_ack_pending == 0
