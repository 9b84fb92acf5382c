"""Beside a thread that computes, a taker keeps the GIL while another thread reads the link."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from jetsync._core.gil import kept
from jetsync._core.inbound import EVENT_EOF, Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from tests.core.kit import LONG, Thread, message, pair, wait_until
from tests.harness.computing import computing

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="followers need Linux; elsewhere a wait gives the GIL up, as all other tests have it",
)

# Answers from another process: a thread of this one would need the GIL for that.
PEER = """
import socket, sys, time
link = socket.socket(fileno=int(sys.argv[1]))
link.setblocking(True)
while link.recv(1):
    time.sleep(0.001)  # for the taker to wait by then
    link.sendall(sys.argv[2].encode())
"""


@contextlib.contextmanager
def reading(*, natively: bool) -> Iterator[tuple[Mailbox, Any]]:
    """A mailbox, and the socket of its link, which another thread reads; without Python or not."""
    inbound, box = Inbound(Outbound()), Mailbox()
    inbound.add(box)
    with pair() as (ours, theirs):
        number, answer = theirs.fileno(), message(payload=b"x").decode()
        peer = subprocess.Popen(
            [sys.executable, "-S", "-c", PEER, str(number), answer], pass_fds=[number]
        )
        theirs.close()
        reader = Thread(read, inbound, ours)
        try:
            wait_until(lambda: reader.waits)
            if natively:
                inbound.link(ours.fileno())  # too late for the reader to lend its turn this time
            yield box, ours
        finally:
            peer.kill()
            peer.wait(LONG)
            reader.finish()
            inbound.unlink()


def read(inbound: Inbound, sock: Any) -> None:
    assert inbound.pump(sock.fileno())[0] == EVENT_EOF


def keeps_the_gil(*, natively: bool) -> bool:
    """Whether a mailbox that waits for an answer of a millisecond does."""
    silent = Mailbox()
    with reading(natively=natively) as (box, link):
        for _ in range(5):  # by now it is known that a thread computes
            assert silent.get(timeout=0.001) is None
        before = kept()
        link.send(b"?")
        msg = box.get(timeout=LONG)
        assert msg is not None
        assert msg.data == b"x"
        return kept() > before


def test_a_taker_behind_a_reader_keeps_the_gil():
    with computing():
        wait_until(lambda: keeps_the_gil(natively=True))


def test_it_does_not_where_reading_needs_python():
    """As over TLS: the reader would wait for the GIL, and the taker for the reader."""
    with computing():
        assert not any(keeps_the_gil(natively=False) for _ in range(5))
