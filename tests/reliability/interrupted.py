"""Programs that are interrupted while they wait: ``python -m tests.reliability.interrupted NAME``.

Each prints "ready" and blocks in its main thread, as if for ever. The test sends SIGINT; the
program catches the KeyboardInterrupt, checks that nothing was lost by it, and prints "fine".
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from jetsync._core.batch import MsgBatch
from jetsync._core.mailbox import MailboxIterator
from jetsync._core.outbound import Outbound
from tests.core.kit import (
    Thread,
    block,
    cut_frames,
    fill,
    link,
    message,
    receiver,
    wait_until,
)

FOREVER = 3600.0


def interrupted(wait: Callable[[], object]) -> None:
    """Block until the interrupt comes."""

    def once(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, once)
    try:
        print("ready", flush=True)
        wait()
    except KeyboardInterrupt:
        return
    raise AssertionError("the wait ended without an interrupt")


def get() -> None:
    inbound, box = receiver()
    interrupted(lambda: box.get(None))
    fill(inbound, b"0", b"1")
    assert [box.get(0).data, box.get(0).data] == [b"0", b"1"]


def get_with_timeout() -> None:
    _, box = receiver()
    interrupted(lambda: box.get(FOREVER))
    assert box.get(0.01) is None


def get_behind_another() -> None:
    """Another thread is in front of us; it goes on and gets its message."""
    inbound, box = receiver()
    other = Thread(box.get)
    interrupted(lambda: box.get(None))
    fill(inbound, b"0")
    assert other.finish().data == b"0"
    fill(inbound, b"1")
    assert box.get(0).data == b"1"


def iterate() -> None:
    inbound, box = receiver()
    iterator = MailboxIterator(box)
    interrupted(lambda: next(iterator))
    fill(inbound, b"0")
    box.finish()
    assert [msg.data for msg in iterator] == [b"0"]


def take_into() -> None:
    inbound, box = receiver()
    batch = box.new_batch(MsgBatch, None)
    interrupted(lambda: box.take_into(batch, 10, None))
    inbound.feed(message(payload=b"0") + message(header=block(status=b"404")))
    assert [s.status for s in box.take_into(batch, 10)] == [404]
    assert [msg.data for msg in batch] == [b"0"]


def publish() -> None:
    """Blocked because the peer does not read; afterwards every frame is whole."""
    with link(small=True, high_water=10_000, write_timeout=FOREVER) as (outbound, peer):
        count = stuff(outbound)
        interrupted(lambda: outbound.publish("never", b"y" * 1000))
        reader = Thread(frames_until, peer, b"after")
        outbound.publish("after", b"")
        subjects = [frame.subject for frame in reader.finish()]
        assert subjects == [b"s"] * count + [b"after"]


def publish_behind_another() -> None:
    """Another publisher waits in front of us; it goes on when there is room."""
    with link(small=True, high_water=10_000, write_timeout=FOREVER) as (outbound, peer):
        count = stuff(outbound)
        other = Thread(outbound.publish, "other", b"y" * 1000)
        interrupted(lambda: outbound.publish("never", b"y" * 1000))
        reader = Thread(frames_until, peer, b"after")
        other.finish()
        outbound.publish("after", b"")
        subjects = [frame.subject for frame in reader.finish()]
        assert subjects == [b"s"] * count + [b"other", b"after"]


def stuff(outbound: Outbound) -> int:
    """Fill the link and the outbound buffer; returns the number of frames."""
    outbound.publish("s", b"x" * 200_000)
    wait_until(lambda: outbound.pending_bytes == 0)
    count = 1
    while outbound.pending_bytes < 9_000:
        outbound.publish("s", b"y" * 1000)
        count += 1
    return count


def frames_until(peer: socket.socket, subject: bytes) -> list:
    found: list = []
    data = b""
    while not found or found[-1].subject != subject:
        frames, data = cut_frames(data + peer.recv(1 << 16))
        found += frames
    return found


def handled() -> None:
    """A handler that returns interrupts nothing: waits go on and every message comes once."""
    inbound, box = receiver()
    seen: list[None] = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(None))
    stop = threading.Event()
    count = 20_000

    def feed() -> None:
        for start in range(0, count, 10):
            fill(inbound, *(b"%d" % i for i in range(start, start + 10)))
        while not seen:
            stop.wait(0.001)
        box.finish()

    print("ready", flush=True)
    feeder = Thread(feed)
    found = [int(msg.data) for msg in MailboxIterator(box)]
    feeder.finish()
    assert found == list(range(count))
    start = time.monotonic()
    assert receiver()[1].get(0.2) is None
    assert time.monotonic() - start >= 0.19
    signal.signal(signal.SIGINT, signal.SIG_IGN)


PROGRAMS = {
    program.__name__: program
    for program in (
        get,
        get_with_timeout,
        get_behind_another,
        iterate,
        take_into,
        publish,
        publish_behind_another,
        handled,
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
    print("fine", flush=True)
