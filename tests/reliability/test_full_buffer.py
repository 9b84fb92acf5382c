"""A server that takes nothing more: every call still ends within its own time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import jetsync
from tests.harness.fakeserver import FakeServer, Peer
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
    before = nc._outbound.pending_bytes
    time.sleep(0.2)
    return before == nc._outbound.pending_bytes > nc._outbound.high_water - 1500


@pytest.fixture
def full() -> Iterator[jetsync.Connection]:
    """A connection whose outbound buffer stays full, while another thread goes on publishing."""
    with FakeServer(reads_no_more) as server:
        nc = jetsync.connect(server.url, ping_interval=60, reconnect=False)

        def flood() -> None:
            try:
                while nc._outbound.pending_bytes < 1_500_000:
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
