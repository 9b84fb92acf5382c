"""The prefetch buffer of a message stream: order, threshold, counts, one thread at a time."""

from __future__ import annotations

import threading

import pytest

from jetsync._core.batch import MsgBatch
from jetsync._core.prefetch import PrefetchBuffer, wake_buffer
from jetsync.errors import ConfigError
from tests.core.kit import LONG, Thread, fill, receiver


class Stream(PrefetchBuffer):
    """A prefetch buffer that is filled from a mailbox at its threshold."""

    def __init__(self, box, limit=100):
        self.box = box
        self.limit = limit
        self.slow = 0
        self.pause = 0

    def _slow_next(self):
        self.slow += 1
        self._enter()
        try:
            if not self._buffered:
                batch = self.box.new_batch(MsgBatch, None)
                self.box.take_into(batch, self.limit, 0)
                self._take_over(batch)
                assert len(batch) == 0
            self._set_threshold(self.pause)
            msg = self._pop()
        finally:
            self._leave()
        if msg is None:
            raise StopIteration
        return msg


def stream(count, **options):
    inbound, box = receiver()
    fill(inbound, *(b"%d" % n for n in range(count)))
    return Stream(box, **options)


def test_messages_come_in_order_and_the_slow_way_only_when_the_hand_is_empty():
    hand = stream(250)
    assert [int(msg.data) for msg in hand] == list(range(250))
    assert hand.slow == 4  # 100, 100, 50, and the end


def test_a_pause_is_kept_to_the_message():
    hand = stream(100)
    hand.pause = 40
    for _ in range(60):
        next(hand)
    assert (hand._buffered, hand.slow) == (40, 1)
    next(hand)
    assert (hand._buffered, hand.slow) == (39, 2)


def test_pausing_now_makes_the_next_one_slow():
    hand = stream(10)
    next(hand)
    next(hand)
    wake_buffer(hand)
    assert hand._quick() is None
    next(hand)
    assert hand.slow == 2


def test_what_is_held_is_counted_in_messages_and_bytes():
    hand = stream(10)
    next(hand)
    assert (hand._buffered, hand._buffered_bytes) == (9, 9 * 2)


def test_quick_takes_only_what_needs_nothing_else():
    hand = stream(3)
    assert hand._quick() is None
    next(hand)
    assert hand._quick().data == b"1"
    assert hand._quick().data == b"2"
    assert hand._quick() is None
    assert hand.slow == 1


@pytest.mark.parametrize("limit", [0, 4, 9, 100])
def test_the_rest_can_be_given_to_a_batch(limit):
    hand = stream(10)
    next(hand)
    batch = hand.box.new_batch(MsgBatch, None)
    hand._enter()
    hand._move_into(batch, limit)
    hand._leave()
    assert [msg.data for msg in batch] == [b"%d" % n for n in range(1, 1 + min(limit, 9))]
    assert hand._buffered == 9 - min(limit, 9)


def test_a_second_thread_is_refused_while_one_is_inside():
    hand = stream(10)
    next(hand)
    hand._enter()
    assert not hand._try_enter()
    other = Thread(lambda: next(hand))
    with pytest.raises(ConfigError, match="one thread at a time"):
        other.finish()
    hand._leave()
    assert next(hand).data == b"1"


def test_two_threads_that_take_at_once_never_get_the_same_message():
    hand = stream(20_000, limit=20_000)
    next(hand)
    barrier = threading.Barrier(4)

    def take():
        mine: list[int] = []
        barrier.wait(LONG)
        while len(mine) < 10_000:
            try:
                msg = hand._quick()
            except ConfigError:
                continue
            if msg is None:
                return mine
            mine.append(int(msg.data))
        return mine

    every = [n for thread in [Thread(take) for _ in range(4)] for n in thread.finish()]
    assert sorted(every) == list(range(1, 20_000))


def test_messages_of_a_hand_that_is_dropped_are_freed():
    for _ in range(50):
        hand = stream(100)
        next(hand)
        del hand
