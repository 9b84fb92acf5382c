"""Errors in a callback harm only that callback; the same for signals and dropped objects."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import time
from typing import Any

import pytest

import jetsync
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.reliability.links import await_reconnect


class Broken(Exception):
    """What the handlers here raise."""


def test_event_handlers_that_raise_harm_nothing(server, caplog):
    """Reconnecting, delivery, later events and the end go on as if they had not."""
    called: list[str] = []

    def broken(event):
        called.append(event.kind)
        raise Broken(event.kind)

    kinds = ("error", "disconnected", "reconnected", "closed", "discovered_servers", "lame_duck")
    handlers: dict[str, Any] = {f"on_{kind}": broken for kind in kinds}
    with caplog.at_level(logging.ERROR, logger="jetsync"):
        nc = jetsync.connect(server.url, **handlers)
        nc.subscribe("bad", callback=lambda msg: 1 / 0)
        sub = nc.subscribe("a")
        for number in range(3):
            nc.publish("bad")
            server.kill()
            server.start()
            await_reconnect(nc, number + 1)
            nc.publish("a", b"%d" % number)
            assert sub.next(timeout=10).data == b"%d" % number
        nc.publish("bad")
        wait_until(lambda: "callback_error" in called, timeout=10)
        nc.close()
    assert called.count("disconnected") == called.count("reconnected") == 3
    assert called[-1] == "closed"
    logged = [r for r in caplog.records if r.exc_info and r.exc_info[0] is Broken]
    assert len(logged) == len(called)


def test_a_handler_that_hangs_holds_up_later_events_only(server):
    go = threading.Event()
    nc = jetsync.connect(server.url, on_disconnected=lambda event: go.wait(60))
    try:
        sub = nc.subscribe("a")
        for number in range(3):
            nc.force_reconnect()
            await_reconnect(nc, number + 1)
            nc.publish("a", b"x")
            assert sub.next(timeout=10).data == b"x"
    finally:
        begun = time.monotonic()
        nc.close()
        took = time.monotonic() - begun
        go.set()
    assert took <= 1.0 + 0.5


def test_a_storm_of_signals_surfaces_nowhere(server):
    """A timer signal each millisecond while everything works; nothing fails or is lost."""
    count = scaled(20_000, 400_000)
    signals = [0]

    def tick(*_):
        signals[0] += 1

    before = signal.signal(signal.SIGALRM, tick)
    try:
        with jetsync.connect(server.url, timeout=60) as nc:
            nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
            sub = nc.subscribe("a")
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            for number in range(count):
                text = b"%d" % number
                nc.publish("a", text)
                assert sub.next().data == text
                if number % 20 == 0:
                    assert nc.request("echo", text).data == text
                if number % 500 == 0:
                    nc.flush()
                    assert len(list(nc.request_many("echo", max_messages=1))) == 1
                    with jetsync.connect(server.url) as other:
                        other.publish("b", b"x" * 100_000)
            with pytest.raises(jetsync.TimeoutError):
                sub.next(timeout=0.2)
            assert nc.stats.reconnects == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert signals[0] > 100


def test_a_message_outlives_its_connection(server):
    """Nothing of a message is borrowed: it reads the same after everything else has gone."""
    nc = jetsync.connect(server.url)
    sub = nc.subscribe("a")
    nc.publish("a", b"data", headers={"Name": "value"}, reply="r")
    msg = sub.next(timeout=10)
    nc.close()
    del nc, sub
    gc.collect()
    assert (msg.subject, msg.data, msg.reply, msg.headers["Name"]) == ("a", b"data", "r", "value")
    with pytest.raises(jetsync.ConnectionClosedError):
        msg.respond(b"too late")


@pytest.mark.parametrize("how", ["close", "drain"])
def test_what_a_callback_still_gets_when_its_connection_ends_from_inside(how, server, caplog):
    """close() is now: nothing further comes. drain() lets it have what had arrived."""
    count = 100
    seen: list[int] = []
    back = threading.Event()
    go = threading.Event()
    nc = jetsync.connect(server.url)

    def callback(msg):
        seen.append(int(msg.data))
        if len(seen) == 1:
            assert go.wait(20)
            nc.close() if how == "close" else nc.drain(timeout=20)
            back.set()
        else:
            nc.publish("gone")  # refused, which is no news any more

    sub = nc.subscribe("a", callback=callback)
    for number in range(count):
        nc.publish("a", b"%d" % number)
    nc.flush(timeout=20)
    with caplog.at_level(logging.WARNING, logger="jetsync"):
        go.set()
        assert back.wait(20)
        delivery = sub._delivery
        assert delivery is not None
        assert delivery._delivery.wait(20)
    assert seen == list(range(1 if how == "close" else count))
    assert not caplog.records
