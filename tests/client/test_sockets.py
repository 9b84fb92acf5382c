"""The socket that is read, between threads that shut it down and those that look at it."""

from __future__ import annotations

import select
import socket
import threading
from typing import Any

import pytest

from jetsync.client.sockets import Sockets


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_thread_that_cuts_while_another_looks_for_bytes_ends_the_link(pair, monkeypatch):
    """poll gives up the GIL, so the other thread comes in the middle of it."""
    ours, theirs = pair
    sockets = Sockets()
    sockets.hold(ours)
    usual = select.poll

    class Interrupted:
        def __init__(self) -> None:
            self._poll = usual()

        def register(self, *about: Any) -> None:
            self._poll.register(*about)

        def poll(self, timeout: float) -> list[tuple[int, int]]:
            cuts = threading.Thread(target=sockets.cut)
            cuts.start()
            cuts.join()
            return self._poll.poll(timeout)

    monkeypatch.setattr(select, "poll", Interrupted)
    sockets.has_unread()
    theirs.settimeout(5)
    assert theirs.recv(1) == b""


def test_bytes_that_wait_are_seen_and_a_closed_socket_has_none(pair):
    ours, theirs = pair
    sockets = Sockets()
    assert not sockets.has_unread()
    sockets.hold(ours)
    assert not sockets.has_unread()
    theirs.send(b"x")
    assert sockets.has_unread()
    ours.close()  # as by another thread, between the two steps
    assert not sockets.has_unread()
    sockets.close()
    assert not sockets.has_unread()
