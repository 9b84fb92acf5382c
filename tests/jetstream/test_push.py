"""Push subscriptions at work: taking messages and acknowledging them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import jetsync
from jetsync.errors import (
    ConfigError,
)
from tests.harness.signals import ctrl_c_when_waiting
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, of_kind

# -- taking ---------------------------------------------------------------------------------------


@pytest.mark.timed
def test_next_returns_messages_in_order_with_metadata(js, stream, subject, in_time):
    fill(js, subject, 5)
    with js.subscribe(subject) as sub:
        got = [sub.next(timeout=5) for _ in range(5)]
        assert [int(msg.data) for msg in got] == list(range(5))
        assert got[2].metadata.stream_seq == 3
        assert sub.delivered == 5
        with in_time(0.2), pytest.raises(jetsync.TimeoutError):
            sub.next(timeout=0.2)


def test_iterating_ends_with_the_subscription(js, stream, subject):
    fill(js, subject, 3)
    sub = js.subscribe(subject)
    wait_until(lambda: sub.pending_messages == 3, timeout=20)
    sub.unsubscribe()
    assert [int(msg.data) for msg in sub] == [0, 1, 2]
    with pytest.raises(jetsync.ConnectionClosedError):
        sub.next(timeout=1)


def test_several_threads_may_take_and_each_message_comes_once(js, stream, subject):
    fill(js, subject, 400)
    got: list[int] = []
    lock = threading.Lock()
    sub = js.subscribe(subject, heartbeat=0.1, max_ack_pending=1000)

    def take():
        while True:
            try:
                msg = sub.next(timeout=1)
            except jetsync.TimeoutError:
                return
            with lock:
                got.append(int(msg.data))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(got) == list(range(400))
    sub.unsubscribe()


def test_a_subscription_with_a_callback_cannot_be_read(js, stream, subject):
    with js.subscribe(subject, callback=lambda msg: None) as sub:
        with pytest.raises(ConfigError, match="callback"):
            sub.next(timeout=0.1)
        with pytest.raises(ConfigError, match="callback"):
            iter(sub)


def test_closing_the_connection_ends_taking(url, js, stream, subject):
    other = jetsync.connect(url)
    sub = other.jetstream().subscribe(subject)
    seen = []

    def run():
        seen.append(list(sub))

    thread = threading.Thread(target=run)
    thread.start()
    other.close()
    thread.join(20)
    assert seen == [[]]


def test_unsubscribing_wakes_who_waits(js, stream, subject):
    sub = js.subscribe(subject)
    ended = []

    def wait():
        try:
            sub.next(timeout=60)
        except jetsync.ConnectionClosedError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    sub.unsubscribe()
    thread.join(20)
    assert len(ended) == 1


def test_ctrl_c_interrupts_waiting_and_loses_nothing(js, stream, subject):
    with js.subscribe(subject, heartbeat=0.1) as sub:
        for number in range(5):
            with pytest.raises(KeyboardInterrupt), ctrl_c_when_waiting():
                sub.next(timeout=60)
            fill(js, subject, 1, start=number)
            assert int(sub.next(timeout=10).data) == number


# -- acknowledging --------------------------------------------------------------------------------


def test_a_callback_that_returns_has_acknowledged(js, stream, subject):
    fill(js, subject, 20)
    got: list[Any] = []
    with js.subscribe(subject, callback=lambda msg: got.append(int(msg.data))) as sub:
        wait_until(lambda: sub.info().ack_floor.stream_seq == 20, timeout=20)
    assert got == list(range(20))


def test_manual_ack_leaves_it_to_the_callback(js, stream, subject):
    fill(js, subject, 4)
    got: list[Any] = []
    with js.subscribe(subject, callback=got.append, manual_ack=True) as sub:
        wait_until(lambda: len(got) == 4, timeout=20)
        assert sub.info().num_ack_pending == 4
        got[0].ack_sync(timeout=5)
        assert sub.info().num_ack_pending == 3


def test_what_the_callback_settled_is_not_acknowledged_again(js, stream, subject):
    fill(js, subject, 1)
    deliveries = []

    def callback(msg):
        deliveries.append(msg.metadata.num_delivered)
        if len(deliveries) == 1:
            msg.nak()

    with js.subscribe(subject, callback=callback) as sub:
        wait_until(lambda: sub.info().ack_floor.stream_seq == 1, timeout=20)
    assert deliveries == [1, 2]


def test_a_failing_callback_acknowledges_nothing_and_goes_on(js, stream, subject, errors):
    fill(js, subject, 2)
    deliveries = []

    def callback(msg):
        deliveries.append((int(msg.data), msg.metadata.num_delivered))
        if deliveries == [(0, 1)]:
            raise KeyError("broken")

    with js.subscribe(subject, callback=callback, ack_wait=0.5) as sub:
        wait_until(lambda: sub.info().ack_floor.stream_seq == 2, timeout=20)
    assert deliveries == [(0, 1), (1, 1), (0, 2)]
    assert of_kind(errors, KeyError)


def test_with_ack_policy_none_nothing_is_sent(js, nc, stream, subject):
    fill(js, subject, 50)
    got: list[Any] = []
    with js.subscribe(subject, ack_policy="none", callback=got.append):
        wait_until(lambda: len(got) == 50, timeout=20)
        before = nc.stats.out_messages
        for msg in got:
            msg.ack()
        assert nc.stats.out_messages == before
