"""A caller that waits alone reads the link, for all others too; events are left to the reader."""

from __future__ import annotations

import contextlib
import functools
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jetsync._core.inbound import EVENT_BAD, EVENT_EOF, EVENT_INFO, EVENT_PONG, Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync._deadline import Deadline
from tests.core.kit import LONG, Thread, message, pair, receiver, wait_until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="a turn needs eventfd; elsewhere callers wait for the reader thread",
)


class Reader(threading.Thread):
    """Pumps one link to its end and keeps the events, as a session does."""

    def __init__(self, inbound: Inbound, sock: socket.socket) -> None:
        super().__init__(daemon=True)
        self.events: list[tuple[int, Any]] = []
        self._inbound, self._sock = inbound, sock
        self.start()

    def run(self) -> None:
        self._inbound.link(self._sock.fileno())
        while True:
            self.events.append(self._inbound.pump(self._sock.fileno()))
            if self.events[-1][0] in (EVENT_EOF, EVENT_BAD):
                break
        self._inbound.unlink()

    def finish(self) -> list[tuple[int, Any]]:
        self.join(LONG)
        assert not self.is_alive()
        return self.events

    @property
    def wake_ups(self) -> int:
        with open(f"/proc/self/task/{self.native_id}/status") as status:
            return int(next(line for line in status if line.startswith("voluntary")).split()[1])


@contextlib.contextmanager
def lent(count: int = 1) -> Iterator[tuple[Any, Any, list[Any]]]:
    """A linked reader that waits, the peer's socket, and mailboxes with the ids 1, 2 ..."""
    inbound, boxes = Inbound(Outbound()), [Mailbox() for _ in range(count)]
    for box in boxes:
        inbound.add(box)
    with pair() as (ours, theirs):
        reader = Reader(inbound, ours)
        try:
            yield reader, theirs, boxes
        finally:
            theirs.close()
            reader.finish()


def echo(sock: socket.socket) -> None:
    """Answer each byte with a message for the mailbox of that number, until the other side ends."""
    while data := sock.recv(4096):
        sock.sendall(b"".join(message(sid=sid, payload=b"answer") for sid in data))


def test_a_lone_caller_gets_its_answers_without_waking_the_reader():
    inbound, box = receiver()

    def is_taken_or_late(late: Deadline) -> bool:
        return inbound.is_taken or late.expired

    def answer(count: int) -> None:
        for _ in range(count):
            assert theirs.recv(1) == b"?"
            # An earlier answer would be the reader's. A caller whose turn took too long, on a busy
            # machine, has given the link back and does not take it again for this answer.
            wait_until(functools.partial(is_taken_or_late, Deadline(0.1)))
            theirs.sendall(message(payload=b"answer"))

    with pair() as (ours, theirs):
        reader, peer = Reader(inbound, ours), Thread(answer, 100)
        wait_until(lambda: not inbound.is_taken)
        before = reader.wake_ups
        for _ in range(100):
            ours.sendall(b"?")
            assert box.get(LONG).data == b"answer"
        peer.finish()
        # A turn that took too long, on a busy machine, ends behind the gate.
        assert reader.wake_ups < before + 50
        ours.shutdown(socket.SHUT_RDWR)
        assert reader.finish() == [(EVENT_EOF, 0)]


def test_what_comes_for_others_reaches_them_while_a_caller_reads():
    with lent(2) as (_reader, theirs, (mine, other)):
        caller = Thread(mine.get, LONG)
        for n in range(200):
            theirs.sendall(message(sid=2, payload=b"%d" % n))
            assert other.get(LONG).data == b"%d" % n
        theirs.sendall(message(sid=1, payload=b"mine"))
        assert caller.finish().data == b"mine"


def test_what_needs_python_is_left_to_the_reader_in_order():
    with lent() as (reader, theirs, (box,)):
        caller = Thread(box.get, LONG)
        theirs.sendall(b'PONG\r\nINFO {"a": 1}\r\nPONG\r\n' + message(payload=b"behind"))
        assert caller.finish().data == b"behind"
        wait_until(lambda: len(reader.events) == 3)
        assert reader.events == [(EVENT_PONG, None), (EVENT_INFO, b'{"a": 1}'), (EVENT_PONG, None)]


def test_the_end_of_the_link_is_the_readers_to_tell():
    with lent() as (reader, theirs, (box,)):
        caller = Thread(box.get, 2.0)
        theirs.close()
        assert reader.finish() == [(EVENT_EOF, 0)]
        assert caller.finish() is None


def test_bytes_that_are_not_the_protocol_are_the_readers_to_tell():
    with lent() as (reader, theirs, (box,)):
        caller = Thread(box.get, 0.5)
        theirs.sendall(b"what is this\r\n")
        assert reader.finish()[-1][0] == EVENT_BAD
        assert caller.finish() is None


def test_a_caller_keeps_its_time_while_messages_for_others_keep_coming():
    with lent(2) as (_reader, theirs, (mine, other)):
        over = threading.Event()

        def chatter() -> None:
            while not over.is_set():
                theirs.sendall(message(sid=2, payload=b"x" * 100))

        talking = Thread(chatter)
        wait_until(lambda: other.received)
        for timeout in (0.001, 0.01, 0.1):
            before = time.monotonic()
            assert mine.get(timeout) is None
            took = time.monotonic() - before
            assert timeout <= took < timeout + 5
        over.set()
        talking.finish()


def test_callers_on_many_threads_get_each_their_own():
    inbound, boxes = Inbound(Outbound()), [Mailbox() for _ in range(8)]
    for box in boxes:
        inbound.add(box)
    with pair() as (ours, theirs):
        reader, peer = Reader(inbound, ours), Thread(echo, theirs)
        sending = threading.Lock()

        def ask(sid: int, box: Mailbox) -> int:
            for _ in range(1000):
                with sending:
                    ours.sendall(bytes([sid]))
                msg = box.get(LONG)
                assert msg is not None
                assert msg.data == b"answer"
            return box.received

        callers = [Thread(ask, sid, box) for sid, box in enumerate(boxes, 1)]
        assert [caller.finish() for caller in callers] == [1000] * 8
        ours.shutdown(socket.SHUT_RDWR)
        assert reader.finish() == [(EVENT_EOF, 0)]
        peer.finish()


def test_no_caller_reads_a_link_that_was_ended_nor_one_that_is_not_lent():
    inbound, box = receiver()
    for _ in range(3):
        with pair() as (ours, theirs):
            reader = Reader(inbound, ours)
            theirs.sendall(message(payload=b"1"))
            assert box.get(LONG).data == b"1"
            theirs.close()
            assert reader.finish() == [(EVENT_EOF, 0)]
            assert box.get(0.01) is None
        inbound.reset(1 << 20)
    with pair() as (ours, theirs):
        # Without link() the reader waits in recv, and a caller for the reader.
        pump = Thread(inbound.pump, ours.fileno())
        caller = Thread(box.get, LONG)
        theirs.sendall(message(payload=b"2"))
        assert caller.finish().data == b"2"
        theirs.close()
        assert pump.finish() == (EVENT_EOF, 0)
