"""Threads that wait for the same get it in the order in which they came."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from functools import partial
from itertools import pairwise

import pytest

from jetsync._core.outbound import Outbound
from tests.core.kit import (
    LONG,
    Thread,
    client_frames,
    cut_frames,
    fill,
    pair,
    receiver,
    wait_until,
)

THREADS = (2, 4, 16)


@pytest.mark.parametrize("count", THREADS)
def test_each_taker_gets_its_share(count, record_figure):
    """A thread that comes back at once stands behind those that wait."""
    inbound, box = receiver()
    taken: Counter[int] = Counter()

    def take(me: int) -> None:
        while box.get(LONG) is not None:
            taken[me] += 1

    takers = [Thread(take, n) for n in range(count)]
    rounds, each = 100, 4 * count
    for _ in range(rounds):
        # In small helpings, so that a thread that the system lets wait misses only some.
        fill(inbound, *[b"x"] * each)
        wait_until(lambda: not box.pending_messages)
    box.finish()
    for taker in takers:
        taker.finish()
    assert sum(taken.values()) == rounds * each
    share = min(taken[n] for n in range(count)) * count / (rounds * each)
    record_figure(f"G26 smallest share of {count} takers", share, goal=">= 0.5")
    assert share >= 0.5, taken


@pytest.mark.parametrize("size", [128, 4096, 65_536, 1 << 20])
@pytest.mark.parametrize("count", THREADS)
def test_each_publisher_goes_on_and_none_is_refused(count, size, record_figure):
    """As long as the server takes data, room goes round: none waits for ever."""
    # Much less room than the threads want: every publish has to wait for its turn.
    outbound = Outbound(high_water=2 * (size + 50), write_timeout=LONG)
    stop = threading.Event()
    done: Counter[int] = Counter()
    subjects: Counter[bytes] = Counter()
    payload = b"x" * size

    def publish(me: int) -> None:
        while not stop.is_set():
            outbound.publish(f"s.{me}", payload)
            done[me] += 1

    def serve(sock) -> None:
        """Count the frames of each publisher as they come."""
        left = b""
        while data := sock.recv(1 << 20):
            left += data
            while (end := left.find(b"\r\n")) >= 0 and len(left) >= end + 4 + size:
                subjects[left[4:end].split(b" ")[0]] += 1
                left = left[end + 4 + size :]

    with pair() as (ours, theirs):
        writer = Thread(outbound.pump)
        outbound.attach(ours.fileno(), b"", 1 << 21)
        server = Thread(serve, theirs)
        publishers = [Thread(publish, n) for n in range(count)]
        enough = 20 if size > 100_000 else 100
        wait_until(lambda: len(done) == count and min(done.values()) >= enough)
        stop.set()
        for publisher in publishers:
            publisher.finish()
        total = sum(done.values())
        wait_until(lambda: sum(subjects.values()) == total)
        outbound.close()
        ours.shutdown(2)
        writer.finish()
        server.finish()
    share = min(done.values()) * count / total
    # A figure only: a thread that the system lets wait is not in the line, and misses its turns.
    record_figure(f"smallest share of {count} publishers of {size} B", share)


def stand_in_line(outbound: Outbound, count: int) -> bool:
    return outbound.waiting == count


@pytest.mark.parametrize("count", THREADS)
def test_room_is_given_in_the_order_of_coming(count):
    """While none is there, all come one after another; the frames leave in that order."""
    outbound = Outbound(high_water=100, write_timeout=LONG)
    with pair() as (ours, theirs):
        outbound.attach(ours.fileno(), b"", 1 << 20)
        outbound.publish("first", b"x" * 100, wake=False)
        publishers = []
        for n in range(count):
            publishers.append(Thread(outbound.publish, f"s.{n}", b"y" * (100 if n % 2 else 30)))
            wait_until(partial(stand_in_line, outbound, n + 1))
        writer = Thread(outbound.pump)
        data = b""
        while len(cut_frames(data)[0]) < count + 1:
            data += theirs.recv(1 << 16)
        for publisher in publishers:
            publisher.finish()
        assert [f.subject for f in client_frames(data)] == [
            b"first",
            *(b"s.%d" % n for n in range(count)),
        ]
        outbound.close()
        writer.finish()


@pytest.mark.parametrize("size", [128, 4096, 65_536, 1 << 20])
@pytest.mark.parametrize("count", THREADS)
def test_no_publisher_waits_longer_than_in_a_fair_queue(count, size, record_figure):
    """Counted in frames of others that go before, so that no clock and no scheduler counts: bytes
    leave only while all publishers stand in line."""
    outbound = Outbound(high_water=size, write_timeout=LONG)
    stop = threading.Event()
    payload = b"x" * size

    def publish(me: int) -> None:
        while not stop.is_set():
            outbound.publish(f"s.{me}", payload)

    with pair() as (ours, theirs):
        theirs.setblocking(False)
        outbound.attach(ours.fileno(), b"", 1 << 21)
        outbound.publish("first", payload, wake=False)
        publishers = [Thread(publish, n) for n in range(count)]
        data = bytearray()
        order: list[bytes] = []
        while len(order) < 3 * count + 1:
            wait_until(partial(stand_in_line, outbound, count))
            outbound.send_now()  # one frame at most is taken, and its room goes to the line
            with contextlib.suppress(BlockingIOError):
                while True:
                    data += theirs.recv(1 << 20)
            while len(data) >= (end := data.find(b"\r\n") + 4 + size) > size + 4:
                order.append(bytes(data[4 : data.index(b" ", 4)]))
                del data[:end]
        stop.set()
        writer = Thread(outbound.pump)
        theirs.setblocking(True)
        drain = Thread(lambda: all(iter(partial(theirs.recv, 1 << 20), b"")))
        for publisher in publishers:
            publisher.finish()
        outbound.close()
        ours.shutdown(2)
        writer.finish()
        drain.finish()
    waits = [
        later - earlier - 1
        for n in range(count)
        for earlier, later in pairwise([i for i, s in enumerate(order) if s == b"s.%d" % n])
    ]
    assert len(waits) >= 2 * count
    fair = count - 1  # each of the others once
    record_figure(
        f"G26 longest wait of {count} publishers of {size} B", max(waits) / fair, "x", goal="<= 4"
    )
    assert max(waits) == fair
