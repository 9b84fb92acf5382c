"""Nothing grows: not with messages, not with requests, not with connections (G8, G8b)."""

from __future__ import annotations

import logging

import pytest

import jetsync
from tests.harness.memory import Holdings, allocated, settled
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.reliability.links import await_reconnect

WARM_UP = scaled(200_000, 1_000_000)
MESSAGES = scaled(1_000_000, 10_000_000)
MIB = 2**20
CYCLES = scaled(200, 1_000)


def pump(nc: jetsync.Connection, sub: jetsync.Subscription, count: int) -> None:
    """Publish and consume that many messages, now and then with headers, requests, inboxes."""
    headers = {"Some": "header", "More": ["a", "b"]}
    window = 1000
    for start in range(0, count, window):
        for n in range(window):
            nc.publish("a", b"x" * 64, headers=headers if n % 10 == 0 else None)
        for n in range(window):
            msg = sub.next(timeout=20)
            if n % 10 == 0:
                assert msg.headers
        if start % (window * 10) == 0:
            for _ in range(20):
                nc.request("echo", b"r", timeout=20)
                assert len(list(nc.request_many("echo", max_messages=1, timeout=20))) == 1
                with nc.subscribe("short"):
                    nc.flush(timeout=20)
            try:
                nc.request("silent", timeout=0)
            except jetsync.TimeoutError:
                pass


def test_memory_threads_and_descriptors_do_not_grow_with_messages(server, record_figure):
    """G8: resident memory between the first part of a long run and its end."""
    with jetsync.connect(server.url) as nc:
        sub = nc.subscribe("a")
        _silent = nc.subscribe("silent")  # it lasts as long as it is held
        nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        pump(nc, sub, WARM_UP)
        before, held = settled(), Holdings.now()
        pump(nc, sub, MESSAGES - WARM_UP)
        grown, holds = settled() - before, Holdings.now()
        assert sub.dropped == 0
    goal = scaled(4, 8)
    record_figure("G8 memory growth over the run", grown, "MiB", goal=f"<= {goal} MiB")
    assert grown <= goal
    assert holds == held


def test_connections_that_come_and_go_leave_nothing(server, record_figure):
    """G8b: threads, descriptors and memory after many cycles of connect and close."""

    def cycle(number):
        nc = jetsync.connect(server.url, on_closed=lambda event: None)
        sub = nc.subscribe("a")
        nc.subscribe("b", callback=lambda msg: msg.respond(b"yes"))
        nc.publish("a", b"x")
        sub.next(timeout=20)
        assert nc.request("b", timeout=20).data == b"yes"
        if number % 2:
            nc.close()
        else:
            nc.drain(timeout=20)

    for number in range(50):
        cycle(number)
    before, held = settled(), Holdings.now()
    for number in range(CYCLES):
        cycle(number)
    wait_until(lambda: Holdings.now() == held, timeout=10)
    grown = settled() - before
    record_figure(f"G8b memory growth over {CYCLES} cycles", grown, "MiB", goal="<= 1 MiB")
    assert grown <= 1


def test_connections_that_fail_or_reconnect_leave_nothing(server, proxy, caplog, record_figure):
    """The same for refused connections and for links that break again and again."""
    rounds = scaled(100, 1000)
    caplog.set_level(logging.CRITICAL, logger="jetsync")  # kept records would be counted

    def refused():
        try:
            jetsync.connect("nats://127.0.0.1:1")
        except jetsync.NoServersError:
            pass

    with jetsync.connect(proxy.url, reconnect_wait=0) as nc:
        sub = nc.subscribe("a")

        def broken():
            links = nc.stats.reconnects
            proxy.cut()
            await_reconnect(nc, links + 1)
            nc.publish("a", b"x")
            assert sub.next(timeout=20).data == b"x"

        for _ in range(20):
            refused()
            broken()
        before, held = settled(), Holdings.now()
        for _ in range(rounds):
            refused()
            broken()
        wait_until(lambda: Holdings.now() == held, timeout=10)
        grown = settled() - before
    record_figure(f"memory growth over {rounds} broken links", grown, "MiB", goal="<= 1 MiB")
    assert grown <= 1


@pytest.mark.parametrize("size", [64 * 1024, MIB])
def test_large_messages_that_wait_take_their_own_size(server, record_figure, size):
    """What waits is held once, and given back when it was taken."""
    count = scaled(16, 512) * MIB // size
    with (
        jetsync.connect(server.url, pending_bytes_limit=2**31, pending_messages_limit=2**31) as nc,
        jetsync.connect(server.url) as near,
    ):
        sub = nc.subscribe("large")
        nc.flush(timeout=20)
        before, had = settled(), allocated()
        for _ in range(count):
            near.publish("large", bytes(size))
            near.flush(timeout=20)
        wait_until(lambda: sub.pending_messages == count, timeout=60)
        waiting = (settled() - before) * MIB / (count * size)
        for _ in range(count):
            assert len(sub.next(timeout=20).data) == size
        has = allocated()
    name = f"G8 large messages, {size // 1024} KiB"
    record_figure(f"{name}: memory while they wait, to their size", waiting, goal="<= 1.1")
    assert waiting <= 1.1 + 2 / scaled(16, 512)  # and some buffers of the two connections
    if had is not None and has is not None:
        record_figure(f"{name}: memory held afterwards", has - had, "MiB", goal="<= 6 MiB")
        assert has - had <= 6
