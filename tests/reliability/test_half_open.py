"""A peer that is there and says nothing is left for another server (G7c)."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

import jetsync
from tests.harness.fakeserver import ClientGone, FakeServer
from tests.harness.proxy import Proxy
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.timed

CONNECTIONS = 8
ROUNDS = scaled(1, 20)
BOUND = 4.0


@pytest.mark.parametrize("fault", ["stopped server", "black hole", "swallowed answers"])
def test_a_silent_server_is_left_for_another_one(fault, server, second, stalls, record_figure):
    """Pings of 1 s, two of them: within 4 s everything works at the other server."""
    worst = 0.0
    with Proxy(server.url) as proxy:
        for _ in range(ROUNDS):
            lost: list[jetsync.Event] = []
            connections = [
                jetsync.connect(
                    [proxy.url, second.url],
                    on_disconnected=lost.append,
                    randomize_servers=False,
                    ping_interval=1.0,
                    max_pings_outstanding=2,
                )
                for _ in range(CONNECTIONS)
            ]
            try:
                subs = [nc.subscribe(f"a.{n}") for n, nc in enumerate(connections)]
                for nc in connections:
                    nc.flush()
                begun = time.monotonic()
                if fault == "stopped server":
                    server.pause()
                elif fault == "black hole":
                    proxy.blackhole()
                else:
                    proxy.swallow_after(0)
                moved: dict[int, float] = {}

                def look(connections=connections, moved=moved):
                    for n, nc in enumerate(connections):
                        if nc.is_connected and str(nc.connected_url) == second.url:
                            moved.setdefault(n, time.monotonic())
                    return len(moved) == CONNECTIONS

                wait_until(look, timeout=30)
                for n, (nc, sub) in enumerate(zip(connections, subs, strict=True)):
                    nc.publish(f"a.{n}", b"here")
                    assert sub.next(timeout=10).data == b"here"

                def all_told(lost: list[jetsync.Event] = lost) -> bool:
                    return len(lost) >= CONNECTIONS

                wait_until(all_told, timeout=10)
                assert all(isinstance(e.error, jetsync.StaleConnectionError) for e in lost)
                took = [at - begun - stalls.during(begun, at) for at in moved.values()]
                worst = max(worst, *took)
            finally:
                server.resume()
                proxy.heal()
                for nc in connections:
                    nc.close()
    record_figure(f"G7c half-open, {fault}: moved after", worst, "s", goal=f"<= {BOUND} s")
    assert worst <= BOUND


def test_the_defaults_find_it_within_a_minute():
    """G7d: one interval until the first ping, one for each that may be outstanding."""
    options = jetsync.ConnectOptions()
    interval = options.ping_interval
    assert isinstance(interval, float)
    assert interval * (1 + options.max_pings_outstanding) <= 60


def test_late_pongs_are_no_reason_to_leave(server, record_figure):
    """A slow network: the answers come, if late."""
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url, ping_interval=0.3) as nc:
        proxy.delay(0.2)
        trips = [nc.rtt(timeout=20) for _ in range(6)]
        assert nc.stats.reconnects == 0
        proxy.heal()
    record_figure("late pongs: longest round trip", max(trips), "s")


def test_any_message_is_a_sign_of_life_and_silence_is_none():
    """A server that is busy sending may answer pings late: it has three times as long."""
    fell_silent = threading.Event()

    def talk(peer):
        peer.handshake()
        assert peer.expect(b"SUB").startswith(b"SUB a ")
        for _ in range(40):
            peer.send_message(b"a", b"1", b"x")
            time.sleep(0.05)  # its pace
        fell_silent.set()
        peer.wait_for_end()

    with (
        FakeServer(talk) as fake,
        jetsync.connect(fake.url, ping_interval=0.6, max_pings_outstanding=2) as nc,
    ):
        sub = nc.subscribe("a")
        for _ in range(40):
            sub.next(timeout=20)
        assert fell_silent.wait(20)
        assert nc.stats.reconnects == 0
        assert len(fake.peers) == 1
        wait_until(lambda: len(fake.peers) > 1 and b"SUB a " in fake.peers[1].received, timeout=20)
        nc.close()  # no drain: this peer answers nothing


def test_a_pong_without_a_ping_confuses_no_flush():
    """Each flush is answered by the PONG to its own PING, whatever came before."""

    def chatty(peer):
        peer.handshake()
        sid = peer.read_line().split(b" ")[-1]
        peer.send(b"PONG\r\n" * 3 + b"MSG ready %s 0\r\n\r\n" % sid)
        with contextlib.suppress(ClientGone, OSError):
            while True:
                if peer.read_line() == b"PING":
                    peer.send(b"MSG ready %s 0\r\n\r\nPONG\r\n" % sid)

    with FakeServer(chatty) as fake, jetsync.connect(fake.url) as nc:
        ready = nc.subscribe("ready")
        ready.next(timeout=20)
        for _ in range(3):
            nc.flush(timeout=20)
            ready.next(timeout=0)  # it is there: the server sent it before that PONG
