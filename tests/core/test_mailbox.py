"""Limits, drops, waiting and ending of a mailbox, counted exactly."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from jetsync._core.batch import MsgBatch
from jetsync._core.inbound import EVENT_SLOW
from jetsync._core.mailbox import Mailbox, MailboxIterator
from jetsync._core.message import Msg
from jetsync.errors import ConfigError
from tests.core.kit import Thread, block, fill, message, receiver, wait_until


def payloads(box):
    found = []
    while (msg := box.get(0)) is not None:
        found.append(msg.data)
    return found


# -- limits --------------------------------------------------------------------------------------


def test_the_newest_is_dropped_beyond_the_message_limit_and_every_drop_is_counted():
    inbound, box = receiver(limit_messages=3)
    fill(inbound, *(b"%d" % i for i in range(10)))
    assert (box.pending_messages, box.dropped, box.received) == (3, 7, 10)
    assert payloads(box) == [b"0", b"1", b"2"]
    assert (box.pending_messages, box.delivered, box.dropped) == (0, 3, 7)


def test_the_byte_limit_counts_subject_reply_header_and_payload():
    header = block(b"A: b")
    size = len(b"subj") + len(b"rep") + len(header) + len(b"payload")
    one = message(b"subj", 1, b"payload", reply=b"rep", header=header)
    inbound, box = receiver(limit_bytes=3 * size)
    inbound.feed(one * 5)
    assert (box.pending_messages, box.pending_bytes, box.dropped) == (3, 3 * size, 2)
    assert box.get(0).size == size
    assert box.pending_bytes == 2 * size
    inbound.feed(one * 5)
    assert (box.pending_messages, box.dropped) == (3, 6)


def test_a_message_larger_than_the_byte_limit_is_taken_when_nothing_else_waits():
    inbound, box = receiver(limit_bytes=10)
    fill(inbound, b"x" * 100, b"y")
    assert payloads(box) == [b"x" * 100]
    assert box.dropped == 1


def test_messages_in_the_consumers_hand_still_count_against_the_limit():
    inbound, box = receiver(limit_messages=4)
    fill(inbound, b"0", b"1", b"2", b"3")
    assert box.get(0).data == b"0"  # the other three are in hand now
    assert box.pending_messages == 3
    fill(inbound, b"4", b"5", b"6")
    assert (box.pending_messages, box.dropped) == (4, 2)
    assert payloads(box) == [b"1", b"2", b"3", b"4"]


def test_without_limits_nothing_is_dropped():
    inbound, box = receiver()
    for _ in range(10):
        fill(inbound, *[b"x" * 1000] * 1000)
    assert (box.pending_messages, box.dropped) == (10_000, 0)
    assert box.pending_bytes == 10_000 * 1001


@pytest.mark.parametrize(
    "limits",
    [{"limit_messages": 4}, {"limit_bytes": 8}, {"limit_messages": 4, "limit_bytes": 8}],
    ids=str,
)
def test_one_event_per_slow_episode_which_ends_at_half_the_limit(limits):
    inbound, box = receiver(**limits)  # each message below weighs 2 bytes
    assert fill(inbound, *[b"x"] * 4) == []
    assert fill(inbound, b"x") == [(EVENT_SLOW, 1)]
    assert fill(inbound, b"x", b"x") == []
    # Room for one is not the end of the episode: no event for each message of a busy stream.
    box.get(0)
    assert fill(inbound, b"x", b"x") == []
    for _ in range(2):
        box.get(0)
    assert fill(inbound, b"x") == []  # half empty: this one ends the episode
    assert fill(inbound, b"x", b"x") == [(EVENT_SLOW, 1)]
    assert box.dropped == 5


# -- waiting -------------------------------------------------------------------------------------


def test_get_returns_in_the_order_of_arrival():
    inbound, box = receiver()
    fill(inbound, b"0", b"1")
    assert box.get().data == b"0"
    fill(inbound, b"2")
    assert [box.get(0).data, box.get(1).data] == [b"1", b"2"]
    assert box.get(0) is None
    assert box.get(-1) is None


def test_get_keeps_its_timeout():
    _, box = receiver()
    start = time.monotonic()
    assert box.get(0.2) is None
    assert 0.19 <= time.monotonic() - start < 15


def test_get_wakes_when_a_message_comes():
    inbound, box = receiver()
    consumer = Thread(box.get)
    fill(inbound, b"x")
    assert consumer.finish().data == b"x"


def test_poke_makes_a_waiting_consumer_return_once():
    inbound, box = receiver()
    consumer = Thread(box.get)
    box.wake()
    assert consumer.finish() is None
    assert not box.ended
    consumer = Thread(box.get)
    fill(inbound, b"x")
    assert consumer.finish().data == b"x"


def test_a_poke_loses_no_message():
    inbound, box = receiver()
    fill(inbound, b"x")
    box.wake()
    assert box.get().data == b"x"


def test_several_consumers_wait_in_turn_and_each_timeout_is_kept():
    inbound, box = receiver()
    first = Thread(box.get)
    second = Thread(box.get, 0.2)
    assert second.finish() is None
    third = Thread(box.get)
    fill(inbound, b"0", b"1")
    assert {first.finish().data, third.finish().data} == {b"0", b"1"}


def test_several_consumers_get_every_message_exactly_once():
    inbound, box = receiver()
    count, threads = 20_000, 4
    barrier = threading.Barrier(threads + 1)

    def consume():
        barrier.wait()
        found = []
        while not box.ended:
            if (msg := box.get(1)) is not None:
                found.append(int(msg.data))
        return found

    consumers = [Thread(consume) for _ in range(threads)]
    barrier.wait()
    for start in range(0, count, 100):
        fill(inbound, *(b"%d" % i for i in range(start, start + 100)))
    box.finish()
    found = [consumer.finish() for consumer in consumers]
    for mine in found:
        assert mine == sorted(mine)
    assert sorted(n for mine in found for n in mine) == list(range(count))
    assert box.delivered == count


# -- ending --------------------------------------------------------------------------------------


def test_finish_lets_what_waits_be_taken_and_takes_nothing_more():
    inbound, box = receiver()
    fill(inbound, b"0", b"1")
    box.finish()
    fill(inbound, b"2")
    assert box.finished
    assert not box.ended
    assert payloads(box) == [b"0", b"1"]
    assert box.ended
    assert box.get() is None  # and does not wait for ever
    assert box.received == 2


def test_finish_wakes_every_waiting_consumer():
    _, box = receiver()
    consumers = [Thread(box.get) for _ in range(4)]
    box.finish()
    assert [consumer.finish() for consumer in consumers] == [None] * 4


def test_the_first_error_is_kept():
    box = Mailbox()
    first, second = ValueError("a"), ValueError("b")
    box.finish(first)
    box.finish(second)
    box.finish()
    assert box.error is first


def test_stop_after_ends_the_box_with_the_message_that_completes_the_count():
    inbound, box = receiver()
    fill(inbound, b"0")
    assert box.stop_after(3)
    assert box.stops_after == 3
    fill(inbound, b"1")
    assert not box.finished
    fill(inbound, b"2", b"3")
    assert box.finished
    assert payloads(box) == [b"0", b"1", b"2"]
    assert box.received == 3


def test_stop_after_wakes_the_consumer_that_waits_for_the_end():
    inbound, box = receiver()
    box.stop_after(1)
    consumer = Thread(lambda: [box.get(), box.get()])
    fill(inbound, b"x")
    first, second = consumer.finish()
    assert first.data == b"x"
    assert second is None
    assert box.ended


def test_stop_after_what_came_already_ends_at_once():
    inbound, box = receiver()
    fill(inbound, b"0", b"1")
    assert not box.stop_after(2)
    fill(inbound, b"2")
    assert payloads(box) == [b"0", b"1"]
    assert not Mailbox().stop_after(0)


def test_a_dropped_message_counts_for_stop_after():
    """The server counts what it sent, so the box must count what it was sent."""
    inbound, box = receiver(limit_messages=1)
    box.stop_after(3)
    fill(inbound, b"0", b"1", b"2", b"3")
    assert box.finished
    assert (box.received, box.dropped) == (3, 2)


def test_discard_drops_what_waits_also_what_is_in_hand():
    inbound, box = receiver()
    fill(inbound, b"0", b"1", b"2")
    box.get(0)
    fill(inbound, b"3")
    assert box.discard() == 3
    assert (box.pending_messages, box.pending_bytes) == (0, 0)
    assert box.discard() == 0
    fill(inbound, b"4")
    assert payloads(box) == [b"4"]


def test_discard_works_while_a_consumer_waits():
    inbound, box = receiver()
    consumer = Thread(box.get)
    assert box.discard() == 0
    fill(inbound, b"x")
    assert consumer.finish().data == b"x"


def test_last_put_tells_when_something_came():
    inbound, box = receiver()
    before = time.monotonic()
    wait_until(lambda: time.monotonic() > before)
    assert box.last_put <= before
    fill(inbound, b"x")
    assert before <= box.last_put <= time.monotonic()


# -- batches -------------------------------------------------------------------------------------


def status(code, sid=1):
    return message(b"a", sid, header=block(status=code))


def test_take_into_moves_messages_until_the_limit_and_hands_out_statuses():
    inbound, box = receiver()
    inbound.feed(
        message(payload=b"0")
        + status(b"100 Idle Heartbeat")
        + message(payload=b"1")
        + status(b"408 Request Timeout")
        + message(payload=b"2")
        + message(payload=b"3")
    )
    batch = box.new_batch(MsgBatch, None)
    statuses = box.take_into(batch, 3)
    assert [(s.status, s.description) for s in statuses] == [
        (100, "Idle Heartbeat"),
        (408, "Request Timeout"),
    ]
    assert [m.data for m in batch] == [b"0", b"1", b"2"]
    assert box.pending_messages == 1
    assert box.delivered == 3
    assert box.take_into(batch, 3) == []  # it is full
    assert box.take_into(batch, 10) == []
    assert [m.data for m in batch] == [b"0", b"1", b"2", b"3"]
    assert box.pending_messages == 0


def test_a_whole_segment_changes_hands_without_a_copy_and_counts_alike():
    inbound, box = receiver()
    fill(inbound, *(b"%d" % i for i in range(100)))
    batch = box.new_batch(MsgBatch, None)
    assert box.take_into(batch, 100) == []
    fill(inbound, b"100")
    assert box.take_into(batch, 1000) == []
    assert [m.data for m in batch] == [b"%d" % i for i in range(101)]
    assert (box.pending_messages, box.pending_bytes, box.delivered) == (0, 0, 101)


READ_FROM = (
    b"Nats-Stream: S",
    b"Nats-Subject: a",
    b"Nats-Sequence: 1",
    b"Nats-Time-Stamp: 2026-01-01T00:00:00Z",
)


@pytest.mark.parametrize(
    "frame",
    [
        message(payload=b"x", header=block(status=b"404 Not Here")),
        message(reply=b"$JS.ACK.S.C.1.1.1.1.0", header=block(status=b"409 Consumer Deleted")),
        message(reply=b"$JS.ACK.S.C.1.1.1.1.0", header=b"NATS/1.0 503"),
        message(header=block(*READ_FROM, status=b"404 Message Not Found")),
    ],
    ids=["with a payload", "delivered", "delivered without CRLF", "read from a stream"],
)
def test_a_status_line_that_a_publisher_wrote_is_a_message(frame):
    inbound, box = receiver()
    inbound.feed(frame + message(payload=b"the next"))
    batch = box.new_batch(MsgBatch, None)
    assert box.take_into(batch, 10) == []
    assert [(m.status, m.description) for m in batch] == [(0, "")] * 2
    assert batch[1].data == b"the next"


def test_take_into_waits_for_the_first_message_only():
    inbound, box = receiver()
    batch = box.new_batch(MsgBatch, None)
    start = time.monotonic()
    assert box.take_into(batch, 10, 0.2) == []
    assert 0.19 <= time.monotonic() - start < 15
    assert box.take_into(batch, 10) == box.take_into(batch, 10, -1) == []
    consumer = Thread(box.take_into, batch, 10, None)
    fill(inbound, b"x")
    assert consumer.finish() == []
    assert len(batch) == 1


def test_a_limit_of_zero_takes_nothing_and_does_not_wait():
    inbound, box = receiver()
    fill(inbound, b"x")
    batch = box.new_batch(MsgBatch, None)
    assert box.take_into(batch, 0, None) == []
    assert len(batch) == 0
    assert box.pending_messages == 1


# -- iterating -----------------------------------------------------------------------------------


def test_iteration_goes_on_until_the_box_ends():
    inbound, box = receiver()
    fill(inbound, b"0", b"1")
    box.finish()
    assert [msg.data for msg in MailboxIterator(box)] == [b"0", b"1"]


def test_iteration_ignores_pokes_and_waits_for_messages():
    inbound, box = receiver()
    consumer = Thread(lambda: [msg.data for msg in MailboxIterator(box)])
    box.wake()
    fill(inbound, b"x")
    box.finish()
    assert consumer.finish() == [b"x"]


def test_iteration_raises_the_error_of_the_box_after_its_last_message():
    inbound, box = receiver()
    fill(inbound, b"x")
    box.finish(ValueError("gone"))
    iterator = MailboxIterator(box)
    assert next(iterator).data == b"x"
    for _ in range(2):
        with pytest.raises(ValueError, match="gone"):
            next(iterator)


def test_an_iterator_belongs_to_one_thread_and_says_so():
    inbound, box = receiver()
    fill(inbound, b"0", b"1")
    iterator = MailboxIterator(box)
    assert next(iterator).data == b"0"
    with pytest.raises(ConfigError, match="another thread"):
        Thread(next, iterator).finish()
    assert next(iterator).data == b"1"


def test_take_into_waits_for_as_many_as_are_asked_for_or_a_status_or_its_time():
    inbound, box = receiver()
    batch = box.new_batch(MsgBatch, None)
    consumer = Thread(box.take_into, batch, 100, None, 5)
    for n in range(5):
        assert consumer.is_alive()
        fill(inbound, b"%d" % n)
    assert consumer.finish() == []
    assert len(batch) == 5
    # What is in the batch counts; a status ends the wait, and what came before it is not lost.
    consumer = Thread(box.take_into, batch, 100, None, 50)
    fill(inbound, b"5")
    inbound.feed(status(b"404 No Messages"))
    statuses = consumer.finish()
    assert ([s.status for s in statuses], len(batch)) == ([404], 6)
    fill(inbound, b"6", b"7")
    assert box.take_into(batch, 100, 0.05, 50) == []
    assert [msg.data for msg in batch] == [b"%d" % n for n in range(8)]
    # A poke and the end return with what there is.
    consumer = Thread(box.take_into, batch, 100, None, 50)
    fill(inbound, b"8")
    box.wake()
    assert (consumer.finish(), len(batch)) == ([], 9)
    consumer = Thread(box.take_into, batch, 100, None, 50)
    fill(inbound, b"9")
    box.finish()
    assert (consumer.finish(), len(batch)) == ([], 10)


class Interrupted(Exception):
    pass


class Slow(Msg):
    """A message in whose making an interrupt or a failed allocation falls."""

    __slots__ = ()
    failing = False

    def __new__(cls):
        if Slow.failing:
            Slow.failing = False
            raise Interrupted
        return super().__new__(cls)


@pytest.mark.parametrize("take", ["one", "many"])
def test_what_raises_while_a_message_is_made_leaves_it_for_the_next_call(take):
    inbound, box = receiver(msg_type=Slow)
    inbound.feed(status(b"100 Idle Heartbeat") + message(payload=b"0"))
    batch = box.new_batch(MsgBatch, None)
    taker: Any = box.get if take == "one" else lambda _: box.take_into(batch, 1)[0]
    Slow.failing = True
    with pytest.raises(Interrupted):
        taker(0)
    assert box.pending_messages == 2
    assert taker(0).status == 100
    assert [msg.data for msg in (*batch, box.get(0)) if msg is not None] == [b"0"]


def test_a_signal_that_comes_while_a_message_is_made_leaves_it_for_the_next_call():
    inbound, box = receiver(msg_type=Signalled)
    fill(inbound, b"0", b"1")

    def handler(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        Signalled.sending = True
        with pytest.raises(Interrupted):
            box.get(0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [box.get(0).data, box.get(0).data, box.get(0)] == [b"0", b"1", None]


class Signalled(Msg):
    __slots__ = ()
    sending = False

    def __new__(cls):
        made = super().__new__(cls)
        if Signalled.sending:
            Signalled.sending = False
            signal.raise_signal(signal.SIGUSR1)
        return made
