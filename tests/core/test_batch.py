"""A batch behaves like a sequence of messages and answers all of them in one write."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import pytest

import jetsync
from jetsync._core.batch import MsgBatch, ack_all
from jetsync._core.message import Msg
from jetsync._core.outbound import Outbound
from jetsync._core.prefetch import PrefetchBuffer
from jetsync.errors import ConfigError, ConnectionClosedError
from tests.core.kit import Held, client_frames, fill, message, receiver


def ack(seq):
    return b"$JS.ACK.S.C.1.%d.%d.1795229586547204964.0" % (seq, seq)


def batch_of(*frames, outbound=None, batch_type=MsgBatch, **options):
    inbound, box = receiver(**options)
    assert inbound.feed(b"".join(frames)) == []
    batch = box.new_batch(batch_type, outbound)
    box.take_into(batch, len(frames))
    return batch


def numbered(count):
    return [message(payload=b"%d" % i) for i in range(count)]


def test_a_batch_is_a_sequence():
    batch = batch_of(*numbered(5))
    assert len(batch) == 5
    assert batch
    assert [m.data for m in batch] == [b"0", b"1", b"2", b"3", b"4"]
    assert batch[0].data == b"0"
    assert batch[-1].data == b"4"
    assert batch[4] is batch[-1]
    assert [m.data for m in batch[1:4:2]] == [b"1", b"3"]
    assert batch[10:] == []
    assert [m.data for m in reversed(batch)] == [b"4", b"3", b"2", b"1", b"0"]
    assert batch[2] in batch
    for index in (5, -6, 10**9):
        with pytest.raises(IndexError):
            batch[index]
    for other in ("0", None, 1.0):
        with pytest.raises(TypeError):
            batch[other]


def test_a_batch_of_jetstream_has_what_a_sequence_has_and_is_one_for_match():
    batch = batch_of(*numbered(3), batch_type=jetsync.MsgBatch)
    assert set(dir(Sequence)) - set(dir(batch)) <= {
        *("_abc_impl", "__abstractmethods__", "__slots__", "__class_getitem__"),
        *("__contains__", "__reversed__"),  # Python does these by itself: see above
    }
    assert (batch.index(batch[1]), batch.count(batch[1]), batch.count(None)) == (1, 1, 0)
    match batch:
        case [first, *rest]:
            assert [first.data, *(msg.data for msg in rest)] == [b"0", b"1", b"2"]
        case _:
            pytest.fail("a batch is no sequence for match")
    assert not isinstance(batch, Sequence)  # else Polars makes a list of objects of it


def test_an_empty_batch():
    for batch in (MsgBatch(), batch_of()):
        assert len(batch) == 0
        assert not batch
        assert list(batch) == batch[:] == []
        assert (batch.first_seq, batch.last_seq, batch.nbytes) == (None, None, 0)
        assert ack_all(batch, b"+ACK") == 0
        with pytest.raises(IndexError):
            batch[0]


def test_looking_twice_gives_the_same_message():
    batch = batch_of(*numbered(3))
    first = batch[1]
    assert batch[1] is first
    assert [m is first for m in batch] == [False, True, False]


def test_a_batch_keeps_its_bytes_and_its_messages_outlive_it():
    kept = list(batch_of(*[message(payload=b"%d" % i * 3000) for i in range(100)]))
    gc.collect()
    assert [m.data for m in kept] == [b"%d" % i * 3000 for i in range(100)]


def test_a_batch_may_grow_after_it_was_looked_at():
    """Growing can move the bytes: what was looked up before must not be looked up there again."""
    inbound, box = receiver()
    batch = box.new_batch(MsgBatch, None)
    kept = []
    iterator = iter(batch)
    for i in range(200):
        inbound.feed(message(payload=b"%d" % i * 50) + message(b"s", 1, b"%d" % i))
        box.get(0)
        box.take_into(batch, 1000)
        assert batch[-1].data == b"%d" % i
        kept.append(batch[i])
        assert next(iterator).data == b"%d" % i
    assert [m.data for m in batch] == [b"%d" % i for i in range(200)]
    assert [m.data for m in kept] == [b"%d" % i for i in range(200)]


class SubMsg(Msg):
    """A message class of an upper room."""


class SubBatch(MsgBatch):
    """A batch class of an upper room."""

    error: str | None = None


def test_classes_of_upper_rooms():
    owner = Held()
    batch = batch_of(*numbered(2), msg_type=SubMsg, batch_type=SubBatch, owner=owner)
    assert type(batch) is SubBatch
    batch.error = "why"
    assert [type(m) for m in batch] == [SubMsg, SubMsg]
    assert batch[0]._owner is owner
    with pytest.raises(TypeError):
        receiver()[1].new_batch(list, None)


def test_sequences_come_from_the_acknowledgement_subjects():
    frames = [message(reply=ack(seq)) for seq in (7, 8, 12)]
    batch = batch_of(*frames)
    assert (batch.first_seq, batch.last_seq) == (7, 12)
    plain = message(reply=b"_INBOX.1")
    batch = batch_of(plain, *frames, plain)
    assert (batch.first_seq, batch.last_seq) == (7, 12)
    batch = batch_of(plain)
    assert (batch.first_seq, batch.last_seq) == (None, None)


def test_nbytes_is_what_the_messages_hold():
    batch = batch_of(message(b"abc", 1, b"12345", reply=b"r"), message(b"d", 1, b"", header=b"HDR"))
    assert batch.nbytes == 3 + 5 + 1 + 1 + 3


# -- answering -----------------------------------------------------------------------------------


def test_answer_all_answers_every_message_once_and_in_order():
    outbound = Outbound()
    batch = batch_of(*[message(reply=ack(seq)) for seq in range(1, 501)], outbound=outbound)
    assert ack_all(batch, b"+ACK") == 500
    frames = client_frames(outbound.peek())
    assert [(f.subject, f.payload) for f in frames] == [
        (ack(seq), b"+ACK") for seq in range(1, 501)
    ]
    assert outbound.messages == 500


def test_answer_all_skips_what_has_no_reply():
    outbound = Outbound()
    frames = [message(reply=ack(1)), message(), message(reply=ack(3))]
    batch = batch_of(*frames, outbound=outbound)
    assert ack_all(batch, b"-NAK") == 2
    assert [f.subject for f in client_frames(outbound.peek())] == [ack(1), ack(3)]


def test_answer_all_can_ask_for_confirmations_numbered_by_index():
    outbound = Outbound()
    frames = [message(reply=ack(1)), message(), message(reply=ack(3))]
    batch = batch_of(*frames, outbound=outbound)
    assert ack_all(batch, b"+ACK", b"_INBOX.me.7-") == 2
    assert [(f.subject, f.reply, f.payload) for f in client_frames(outbound.peek())] == [
        (ack(1), b"_INBOX.me.7-0", b"+ACK"),
        (ack(3), b"_INBOX.me.7-2", b"+ACK"),
    ]
    with pytest.raises(ConfigError, match="too long"):
        ack_all(batch, b"+ACK", b"x" * 300)


def test_answer_all_on_a_closed_connection_says_so():
    outbound = Outbound()
    batch = batch_of(message(reply=ack(1)), outbound=outbound)
    outbound.close()
    with pytest.raises(ConnectionClosedError):
        ack_all(batch, b"+ACK")


def test_an_iterator_goes_on_when_its_batch_grows_or_is_emptied():
    """What it walks may move or go away; it goes on behind what it gave, or ends."""
    inbound, box = receiver()
    batch = box.new_batch(MsgBatch, None)
    walking = iter(batch)
    fill(inbound, *(b"%d" % n for n in range(100)))
    box.take_into(batch, 60)
    assert [next(walking).data for _ in range(50)] == [b"%d" % n for n in range(50)]
    box.take_into(batch, 100)
    assert [msg.data for msg in walking] == [b"%d" % n for n in range(50, 100)]
    late = iter(batch)
    assert next(late).data == b"0"
    PrefetchBuffer()._take_over(batch)
    assert list(late) == []
