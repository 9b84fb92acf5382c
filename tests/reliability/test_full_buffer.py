"""A server that takes nothing more: every call still ends within its own time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.conditioner import Link
from tests.harness.fakeserver import FakeServer, Peer
from tests.harness.insides import outbound_of
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.timed

GRACE = 0.25
SHORT = 0.3
PAYLOAD = b"x" * 2000


def reads_no_more(peer: Peer) -> None:
    """Answer the greeting and never read again."""
    peer._link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.handshake()
    peer.hold()


def stays_full(nc: jetsync.Connection) -> bool:
    """Whether the system's own buffers are full too, so that nothing moves any more."""
    before = outbound_of(nc).pending_bytes
    time.sleep(0.2)  # two looks some time apart
    return before == outbound_of(nc).pending_bytes > outbound_of(nc).high_water - 1500


@pytest.fixture
def full() -> Iterator[jetsync.Connection]:
    """A connection whose outbound buffer stays full, while another thread goes on publishing."""
    with FakeServer(reads_no_more) as server:
        nc = jetsync.connect(server.url, ping_interval=60, reconnect=False)

        def flood() -> None:
            try:
                while outbound_of(nc).pending_bytes < 1_500_000:
                    nc.publish("flood", b"y" * 500_000)
                while True:
                    nc.publish("flood", b"y" * 1500)
            except jetsync.Error:
                return

        flooding = threading.Thread(target=flood)
        flooding.start()
        wait_until(lambda: stays_full(nc))
        try:
            yield nc
        finally:
            nc.close()
            flooding.join()


CALLS: dict[str, Callable[[jetsync.Connection, jetsync.JetStream], object]] = {
    "request": lambda nc, js: nc.request("s", PAYLOAD, timeout=SHORT),
    "request_many": lambda nc, js: list(nc.request_many("s", PAYLOAD, timeout=SHORT)),
    "publish to a stream": lambda nc, js: js.publish("s", PAYLOAD, timeout=SHORT),
    "ask the server's API": lambda nc, js: js.stream("S", timeout=SHORT),
    "flush": lambda nc, js: nc.flush(timeout=SHORT),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_keeps_its_own_timeout_although_the_buffer_is_full(full, call):
    js = full.jetstream()
    began = time.monotonic()
    with pytest.raises(jetsync.Error):
        call(full, js)
    assert time.monotonic() - began < SHORT + GRACE


def fill_to_the_brim(nc: jetsync.Connection) -> None:
    for payload in (PAYLOAD, b""):
        with pytest.raises(jetsync.OutboundFullError):
            for _ in range(1000):
                nc.publish("elsewhere", payload)


def test_calls_of_the_api_wait_for_the_link_behind_a_full_buffer():
    """While there is no link and the buffer for it is full, a lookup waits as a publish does."""
    with NatsServer() as server, jetsync.connect(server.url) as near, Link(server.url) as link:
        near.jetstream().create_stream(name="S", subjects=["s"], storage="memory")
        with jetsync.connect(link.url, reconnect_wait=0.01, reconnect_buffer_size=100_000) as far:
            js = far.jetstream(timeout=20)
            bucket = js.create_key_value(bucket="B", storage="memory")
            bucket.put("k", b"v")
            link.refuse()
            link.cut()
            wait_until(lambda: far.status is jetsync.Status.RECONNECTING)
            fill_to_the_brim(far)
            back = threading.Timer(0.5, lambda: link.refuse(False))
            back.start()
            try:
                assert js.stream("S").name == "S"
                link.refuse()
                link.cut()
                wait_until(lambda: far.status is jetsync.Status.RECONNECTING)
                fill_to_the_brim(far)
                again = threading.Timer(0.3, lambda: link.refuse(False))
                again.start()
                with ThreadPoolExecutor(3) as threads:
                    found = threads.submit(bucket.get, "k")
                    heard = threads.submit(far.request, "unheard", timeout=20)
                    many = threads.submit(lambda: bucket.watch().next(timeout=20))
                    again.join()
                    assert found.result().value == many.result().value == b"v"
                    assert isinstance(heard.exception(), jetsync.NoRespondersError)
            finally:
                back.join()
            link.refuse()
            link.cut()
            wait_until(lambda: far.status is jetsync.Status.RECONNECTING)
            fill_to_the_brim(far)
            with pytest.raises((jetsync.TimeoutError, jetsync.OutboundFullError)):
                js.create_consumer("S", timeout=0.1)
            far.close()


def test_a_subscription_needs_no_room_in_a_full_buffer():
    """The next link begins with the SUB lines of all subscriptions."""
    with (
        NatsServer(jetstream=False) as server,
        jetsync.connect(server.url) as near,
        Link(server.url) as link,
        jetsync.connect(link.url, reconnect_wait=0.01, reconnect_buffer_size=100_000) as far,
    ):
        link.refuse()
        link.cut()
        wait_until(lambda: far.status is jetsync.Status.RECONNECTING)
        fill_to_the_brim(far)
        sub = far.subscribe("later")
        link.refuse(False)
        wait_until(lambda: far.is_connected, timeout=20)
        far.flush(timeout=20)
        near.publish("later", b"x")
        assert sub.next(timeout=20).data == b"x"
