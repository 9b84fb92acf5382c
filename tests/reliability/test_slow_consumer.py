"""A slow subscription loses messages: counted exactly, told once, in bounded memory (G16)."""

from __future__ import annotations

import threading
from functools import partial

import pytest

import jetsync
from tests.harness.memory import MIB, resident, settled
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

SIZE = 10_000
EPISODES = 3
SENT = scaled(100 * MIB, 2048 * MIB) // SIZE // EPISODES
LIMIT = 8 * MIB
ALLOWED = 32.0


def test_what_is_dropped_is_counted_and_told_once_and_memory_is_bounded(server, record_figure):
    told: list[BaseException | None] = []
    peak = 0.0

    def was_told(times):
        return len(told) >= times

    with (
        jetsync.connect(server.url) as sender,
        jetsync.connect(server.url, on_error=lambda event: told.append(event.error)) as nc,
    ):
        sub = nc.subscribe("big", pending_bytes_limit=LIMIT, pending_messages_limit=0)
        beside = nc.subscribe("small")
        nc.flush(timeout=30)
        before = settled()
        sent = delivered = 0
        for episode in range(EPISODES):
            for number in range(SENT):
                sender.publish("big", b"%010d" % sent + b"x" * SIZE)
                sent += 1
                if number % 500 == 0:
                    sender.flush(timeout=60)
                    peak = max(peak, resident() - before)
            sender.publish("small", b"done")
            assert beside.next(timeout=60).data == b"done", "its neighbours lose nothing"
            peak = max(peak, resident() - before)
            assert sub.dropped == sent - delivered - sub.pending_messages
            assert sub.pending_bytes <= LIMIT
            wait_until(partial(was_told, episode + 1), timeout=20)
            # What was kept is the oldest, in order.
            first = None
            while sub.pending_messages:
                number = int(sub.next(timeout=10).data[:10])
                assert first is None or number == first + 1
                first = number
                delivered += 1
        nc.flush(timeout=30)
        over = peak - LIMIT / MIB
        record_figure("G16 sent", sent * SIZE / MIB, "MiB")
        record_figure("G16 delivered + dropped - sent", delivered + sub.dropped - sent, goal="0")
        record_figure("G16 events per episode", len(told) / EPISODES, goal="1")
        record_figure("G16 memory over the limit", over, "MiB", goal=f"<= {ALLOWED} MiB")
        assert over <= ALLOWED
        assert sub.delivered + sub.dropped == sent
        assert delivered == sub.delivered
        assert nc.stats.dropped == sub.dropped
        sub.unsubscribe()
        assert nc.stats.dropped == sub.dropped > 0, "the counter of the connection stays"
    assert [type(error) for error in told] == [jetsync.SlowConsumerError] * EPISODES


@pytest.mark.timed
def test_a_callback_that_blocks_costs_its_own_subscription_only(server):
    """The reader never waits for user code: pings are answered, others get their messages."""
    go = threading.Event()
    with jetsync.connect(server.url, ping_interval=0.25, pending_messages_limit=100) as nc:
        slow = nc.subscribe("a", callback=lambda msg: go.wait(60))
        quick = nc.subscribe("a")
        for number in range(10_000):
            nc.publish("a", b"%d" % number)
            assert quick.next(timeout=30).data == b"%d" % number
        assert nc.stats.reconnects == 0
        assert slow.pending_messages == 100
        # One is in the hands of the callback.
        assert slow.dropped == 10_000 - 100 - 1
        go.set()
