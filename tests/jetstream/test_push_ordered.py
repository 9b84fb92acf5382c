"""Ordered push subscriptions: every message once and in order, whatever happens in between."""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync.errors import MissedHeartbeatError
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.push.ordered import OrderedPushSubscription
from tests.harness.proxy import Proxy
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill


def take(sub, count, timeout=20):
    return [int(sub.next(timeout=timeout).data) for _ in range(count)]


def test_its_consumer_is_what_the_document_says(js, stream, subject):
    with js.subscribe(subject, ordered=True) as sub:
        config = sub.cached_info.config
        assert (config.ack_policy, config.max_deliver, config.mem_storage) == ("none", 1, True)
        assert (config.flow_control, config.num_replicas) == (True, 1)
        assert config.idle_heartbeat > 0
        assert config.durable_name is None
        assert config.filter_subject == subject
    assert list(js.consumer_names(stream.name)) == []


def test_the_consumer_can_be_shaped_where_that_makes_sense(js, stream, subject):
    config = ConsumerConfig(ack_policy="none", headers_only=True, idle_heartbeat=2)
    fill(js, subject, 5)
    start = {"deliver_policy": "by_start_sequence", "opt_start_seq": 3}
    with js.subscribe(subject, ordered=True, config=config, **start) as sub:
        msgs = [sub.next(timeout=5) for _ in range(3)]
        assert [msg.metadata.stream_seq for msg in msgs] == [3, 4, 5]
        assert [msg.data for msg in msgs] == [b"", b"", b""]


def test_every_message_in_order_with_a_callback(js, stream, subject):
    fill(js, subject, 3000)
    got: list[int] = []
    with js.subscribe(subject, ordered=True, callback=lambda msg: got.append(int(msg.data))):
        wait_until(lambda: len(got) == 3000, timeout=60)
    assert got == list(range(3000))


def test_a_deleted_consumer_is_made_anew_behind_the_last_message(js, stream, subject):
    fill(js, subject, 10)
    with js.subscribe(subject, ordered=True, heartbeat=0.2) as sub:
        assert take(sub, 4) == [0, 1, 2, 3]
        js.delete_consumer(stream.name, sub.name)
        fill(js, subject, 5, start=10)
        assert take(sub, 11) == list(range(4, 15))
        wait_until(lambda: len(list(js.consumer_names(stream.name))) <= 1, timeout=20)


def test_a_gap_resets_and_what_the_old_consumer_still_sends_is_dropped(js, stream, subject):
    """The gap is real: messages are dropped here, because too many wait."""
    fill(js, subject, 3000)
    with js.subscribe(subject, ordered=True, pending_messages_limit=10) as sub:
        wait_until(lambda: sub.dropped, timeout=20)
        assert take(sub, 3000) == list(range(3000))
        assert sub.resets > 0


def test_a_heartbeat_that_counts_more_resets(url, js, stream, subject):
    with RawClient(url) as raw, js.subscribe(subject, ordered=True) as sub:
        raw.handshake()
        fill(js, subject, 2)
        assert take(sub, 2) == [0, 1]
        block = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 9\r\n\r\n"
        raw.send(f"HPUB {sub.subject} {len(block)} {len(block)}\r\n".encode() + block + b"\r\n")
        raw.send(b"PING\r\n")
        raw.read_until(b"PONG\r\n")
        fill(js, subject, 3, start=2)
        assert take(sub, 3) == [2, 3, 4]
        assert sub.resets == 1


def test_one_that_begins_with_new_messages_misses_none_over_a_reset(js, stream, subject):
    fill(js, subject, 5)
    with js.subscribe(subject, ordered=True, deliver_policy="new", heartbeat=0.2) as sub:
        js.delete_consumer(stream.name, sub.name)
        fill(js, subject, 3, start=5)
        assert take(sub, 3) == [5, 6, 7]


def test_many_cuts_of_the_link_lose_and_repeat_nothing(url, js, stream, subject):
    total = 4000
    with Proxy(url) as proxy, jetsync.connect(proxy.url, reconnect_wait=0.02) as nc:
        sub = nc.jetstream().subscribe(subject, ordered=True)
        got: list[int] = []
        stop = threading.Event()

        def publish():
            for start in range(0, total, 100):
                fill(js, subject, 100, start=start)

        def cut():
            while not stop.wait(0.2):
                proxy.cut()

        threads = [threading.Thread(target=publish), threading.Thread(target=cut)]
        for thread in threads:
            thread.start()
        try:
            while len(got) < total:
                got += take(sub, 1, timeout=60)
                if len(got) >= total // 2 and sub.resets >= 5:
                    stop.set()
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert got == list(range(total))


def test_silence_is_told_and_got_over(url, js, stream, subject):
    errors = []
    with (
        Proxy(url) as proxy,
        jetsync.connect(
            proxy.url, on_error=lambda e: errors.append(e.error), ping_interval=0.5
        ) as nc,
    ):
        sub = nc.jetstream().subscribe(subject, ordered=True, heartbeat=0.1)
        fill(js, subject, 1)
        assert take(sub, 1) == [0]
        proxy.blackhole()
        wait_until(
            lambda: any(isinstance(e, MissedHeartbeatError) for e in list(errors)), timeout=20
        )
        fill(js, subject, 1, start=1)
        proxy.heal()
        assert take(sub, 1, timeout=30) == [1]


def test_a_deleted_stream_ends_it(js, nc):
    js.create_or_update_stream(name="KEEPORDERED", subjects=["keepordered"], storage="memory")
    js.create_stream(name="ENDS", subjects=["ends"], storage="memory")
    sub = js.subscribe("ends", ordered=True, heartbeat=0.1)
    js.delete_stream("ENDS")
    with pytest.raises(jetsync.StreamNotFoundError):
        sub.next(timeout=30)
    assert not sub.is_active


def test_a_stream_that_was_made_anew_ends_it(js):
    js.create_or_update_stream(name="KEEPORDERED", subjects=["keepordered"], storage="memory")
    js.create_stream(name="AGAIN", subjects=["again"], storage="memory")
    fill(js, "again", 5)
    sub = js.subscribe("again", ordered=True, heartbeat=0.1)
    assert take(sub, 5) == [0, 1, 2, 3, 4]
    js.delete_stream("AGAIN")
    js.create_stream(name="AGAIN", subjects=["again"], storage="memory")
    with pytest.raises(jetsync.JetStreamError, match="not the one it was"):
        sub.next(timeout=30)
    js.delete_stream("AGAIN")


def test_a_timeout_is_kept_while_the_server_does_not_answer(fresh_server):
    with jetsync.connect(fresh_server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"])
        sub = js.subscribe("s", ordered=True)
        assert isinstance(sub, OrderedPushSubscription)
        sub._reset("for this test")
        fresh_server.pause()
        with pytest.raises(jetsync.TimeoutError):
            sub.next(timeout=0.3)
        fresh_server.resume()
        js.publish("s", b"7")
        assert take(sub, 1) == [7]
