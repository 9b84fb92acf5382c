"""A hundred thousand subscriptions come back with the link, and so do their counts (G19)."""

from __future__ import annotations

import time

import pytest

import jetsync
from tests.harness.soak import scaled
from tests.reliability.links import await_reconnect

pytestmark = pytest.mark.timed

COUNT = 100_000
BOUND = 2.0
SLACK = 2.0  # the server needs its time too, on a busy machine
EVERY = 1000


def test_all_subscriptions_are_back_within_two_seconds(server, keeps_promise):
    took = []
    with jetsync.connect(server.url, reconnect_wait=0.01) as nc:
        subs = [nc.subscribe(f"s.{n}") for n in range(COUNT)]
        limited = [nc.subscribe("limited") for _ in range(3)]
        for n, sub in enumerate(limited):
            sub.unsubscribe(max_messages=n + 2)
        ended = nc.subscribe("ended")
        ended.unsubscribe(max_messages=1)
        nc.publish("limited", b"first")
        nc.publish("ended", b"only")
        nc.flush(timeout=60)
        for _ in range(scaled(1, 20)):
            links = nc.stats.reconnects
            server.kill()
            server.start()
            begun = time.monotonic()
            await_reconnect(nc, links + 1)
            nc.flush(timeout=60)
            took.append(time.monotonic() - begun)
            assert server.monitor("varz", 30)["subscriptions"] >= COUNT
        for n in range(0, COUNT, EVERY):
            nc.publish(f"s.{n}", b"%d" % n)
        for n in range(0, COUNT, EVERY):
            assert subs[n].next(timeout=30).data == b"%d" % n
        # One of each count was used up before: what is left is counted on, by both sides.
        for _ in range(10):
            nc.publish("limited", b"more")
            nc.publish("ended", b"never")
        nc.flush(timeout=60)
        assert [len(list(sub)) for sub in limited] == [2, 3, 4]
        assert [msg.data for msg in ended] == [b"only"]
        assert nc.stats.unmatched == 0
        nc.close()
    keeps_promise(f"G19 {COUNT} subscriptions back after", took, BOUND, slack=SLACK)
