"""A connection without references warns, and leaves nothing behind."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import Any

import pytest

import jetsync
from tests.harness.insides import label_of
from tests.harness.waiting import wait_until


def threads_of(label):
    return [t.name for t in threading.enumerate() if t.name.endswith(f"-{label}")]


def forget(nc_and_more, label):
    """Drop the last references; returns the warnings that came of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nc_and_more.clear()
        # What a dropped consumer still gives up, on the timer, goes with a later collection.
        wait_until(lambda: gc.collect() >= 0 and not threads_of(label), timeout=10)
    return [w for w in caught if issubclass(w.category, ResourceWarning)]


def idle(nc):
    return []


def subscribed(nc):
    sub = nc.subscribe("a")
    nc.publish("a", b"x")
    assert sub.next(timeout=5).data == b"x"
    return [sub]


def unread(nc):
    sub = nc.subscribe("a")
    nc.publish("a", b"x")
    nc.flush()
    wait_until(lambda: sub.pending_messages == 1)
    return [sub]


def asked(nc):
    with pytest.raises(jetsync.NoRespondersError):
        nc.request("unheard", timeout=5)
    return []


def called_back(nc):
    called = threading.Event()
    sub = nc.subscribe("asked")
    nc.request_async("asked").add_done_callback(lambda _: called.set())
    sub.next(10).respond(b"x")
    assert called.wait(10)
    return []


def pulling(nc):
    js = nc.jetstream()
    stream = js.create_or_update_stream(name="FORGOTTEN", subjects=["forgotten.>"])
    js.publish("forgotten.a", b"x")
    consumer = stream.create_consumer()
    return [js, stream, consumer, consumer.fetch(1, timeout=5)]


@pytest.mark.parametrize("use", [idle, subscribed, unread, asked, called_back, pulling])
def test_a_forgotten_connection_warns_and_ends_its_threads(url, use):
    nc = jetsync.connect(url)
    label = label_of(nc)
    assert threads_of(label)
    held = [nc, *use(nc)]
    del nc
    assert len(forget(held, label)) == 1


def test_one_that_is_still_of_use_is_not_forgotten(url):
    """A subscription, an iterator, a batch or a message keeps its connection alive."""
    for keep in ("sub", "iterator", "msg"):
        nc = jetsync.connect(url)
        label = label_of(nc)
        sub = nc.subscribe("b")
        sender = jetsync.connect(url)
        nc.flush()
        sender.publish("b", b"1", reply="b.reply")
        answers = sender.subscribe("b.reply")
        sender.flush()
        held: Any = {"sub": sub, "iterator": iter(sub), "msg": sub.next(timeout=5)}[keep]
        del nc, sub
        gc.collect()
        if keep == "msg":
            held.respond(b"here")
            assert answers.next(timeout=5).data == b"here"
        else:
            sender.publish("b", b"2")
            assert (held.next(timeout=5) if keep == "sub" else next(held)).data == b"2"
        del answers
        sender.close()
        held = [held]
        assert len(forget(held, label)) == 1


def test_a_closed_connection_says_nothing(url):
    nc = jetsync.connect(url)
    label = label_of(nc)
    nc.close()
    held = [nc]
    del nc
    assert forget(held, label) == []


def test_also_without_a_server_in_reach(fresh_server):
    held = [jetsync.connect(fresh_server.url, reconnect_wait=0.05)]
    label = label_of(held[0])
    fresh_server.kill()
    wait_until(lambda: not held[0].is_connected)
    assert len(forget(held, label)) == 1
