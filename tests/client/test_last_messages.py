"""How subscriptions end: after so many messages, and over a link that breaks meanwhile."""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.insides import left_open, waits_for_pong
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until

LONG = 20.0


@pytest.fixture(scope="module")
def server():
    with NatsServer(jetstream=False) as one:
        yield one


def leftovers(nc):
    return sum(left_open(nc).values())


def test_subscriptions_that_had_their_last_message_leave_nothing_behind(server):
    """There is no second unsubscribe after the number of messages that was asked for."""
    with jetsync.connect(server.url) as nc:
        at_first = leftovers(nc)
        for _ in range(20):
            sub = nc.subscribe("a")
            sub.unsubscribe(2)
            for data in (b"1", b"2", b"3"):
                nc.publish("a", data)
            nc.flush()
            assert [msg.data for msg in sub] == [b"1", b"2"]
        wait_until(lambda: leftovers(nc) == at_first, timeout=LONG)


def test_callbacks_that_had_their_last_message_leave_nothing_behind(server):
    seen: list[jetsync.Msg] = []
    with jetsync.connect(server.url) as nc:
        at_first = leftovers(nc)
        for _ in range(20):
            nc.subscribe("a", callback=seen.append).unsubscribe(2)
            for data in (b"1", b"2", b"3"):
                nc.publish("a", data)
            nc.flush()
        wait_until(lambda: leftovers(nc) == at_first, timeout=LONG)
    assert [msg.data for msg in seen] == [b"1", b"2"] * 20


def test_drain_waits_for_a_callback_that_had_its_last_message(server):
    nc = jetsync.connect(server.url)
    entered, leave = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def callback(msg):
        entered.set()
        leave.wait(LONG)
        seen.append(msg.data)
        nc.publish("answers", msg.data)

    nc.subscribe("a", callback=callback).unsubscribe(2)
    for data in (b"1", b"2"):
        nc.publish("a", data)
    nc.flush()
    assert entered.wait(LONG)
    drainer = threading.Thread(target=nc.drain, args=(LONG,))
    drainer.start()
    wait_until(lambda: nc.status is jetsync.Status.DRAINING_SUBS, timeout=LONG)
    leave.set()
    drainer.join(2 * LONG)
    assert seen == [b"1", b"2"]


@pytest.mark.parametrize("what", ["subscription", "connection"])
def test_a_link_that_breaks_ends_the_waiting_for_more_and_no_callback(server, what):
    """Everything that had come is still delivered, and what it publishes is sent."""
    with (
        Proxy(server.url) as proxy,
        jetsync.connect(server.url) as other,
        jetsync.connect(proxy.url, reconnect_wait=0.02, reconnect_jitter=0.02) as nc,
    ):
        answers = other.subscribe("answers")
        other.flush()
        entered, leave = threading.Event(), threading.Event()

        def callback(msg):
            entered.set()
            leave.wait(LONG)
            nc.publish("answers", msg.data)

        sub = nc.subscribe("a", callback=callback)
        for n in range(5):
            nc.publish("a", b"%d" % n)
        nc.flush()
        assert entered.wait(LONG)
        proxy.blackhole()
        target = sub if what == "subscription" else nc
        drainer = threading.Thread(target=target.drain, args=(LONG,))
        drainer.start()
        wait_until(lambda: waits_for_pong(nc), timeout=LONG)  # it waits for the server
        proxy.cut()
        proxy.heal()
        wait_until(lambda: nc.stats.reconnects == 1, timeout=LONG)
        leave.set()
        drainer.join(2 * LONG)
        assert not drainer.is_alive()
        assert not sub.is_active
        assert [answers.next(LONG).data for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
