"""What the outbound side keeps until it is known to have arrived: acknowledgements."""

from __future__ import annotations

import pytest

from jetsync._core.batch import ack_all, unconfirmed_rows
from jetsync._core.delivered import publish_ack
from jetsync._core.handles import Publishing
from jetsync._core.inbound import EVENT_PONG, Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import ACKED, CONFIRMED, DONE
from jetsync._core.outbound import Outbound
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from tests.core.kit import link, message, pair, read, receiver

MORE = 512 * 1024  # KEPT_MORE in kept.pxd
MOST = 8 << 20  # KEPT_MOST


class Owner(Publishing):
    """As much of a connection as a message sees."""


def ack(outbound, payload=b"+ACK", *, keep=True):
    owner = Owner(outbound)
    publish_ack(JetStreamMsg._make("a", reply="$JS.ACK.1", owner=owner), payload, keep)


FRAME = b"PUB $JS.ACK.1 4\r\n+ACK\r\n"
PING = b"PING\r\n"


@pytest.fixture
def kept():
    """An outbound side, and how often it told that a first frame is kept."""
    outbound = Outbound(high_water=1 << 30)
    told: list[bool] = []
    outbound.on_resend = lambda: told.append(True)
    return outbound, told


def over_the_next_link(outbound, size):
    """What a new link gets first."""
    with pair() as (ours, theirs):
        outbound.attach(ours.fileno(), b"", 1 << 20)
        outbound.send_now()
        found = read(theirs, size)
        outbound.detach()
        return found


def test_what_was_sent_and_may_be_lost_is_sent_again():
    with link() as (outbound, theirs):
        ack(outbound)
        ack(outbound, b"-NAK", keep=False)
        assert read(theirs, len(FRAME) * 2) == FRAME + FRAME.replace(b"+ACK", b"-NAK")
        outbound.detach()
        assert over_the_next_link(outbound, len(FRAME)) == FRAME
        # Nor is it known now: until a PONG shows it, it goes out over every link.
        ack(outbound, keep=False)
        assert over_the_next_link(outbound, len(FRAME) * 2) == FRAME * 2


def pong(inbound):
    """The answer to a PING; returns what of it is for the reader."""
    return inbound.feed(b"PONG\r\n")


def test_what_has_arrived_is_not_sent_again():
    with link() as (outbound, theirs):
        inbound = Inbound(outbound)
        ack(outbound)
        assert outbound.ask_what_arrived()
        ack(outbound, b"+TERM")
        assert outbound.ask_what_arrived()  # while one PING is on its way there is no other
        outbound.send_now()
        term = b"PUB $JS.ACK.1 5\r\n+TERM\r\n"
        assert read(theirs, len(FRAME + PING + term)) == FRAME + PING + term
        assert pong(inbound) == []  # no Python is needed for it
        outbound.detach()
        assert over_the_next_link(outbound, len(term)) == term


def test_a_pong_is_told_to_the_reader_if_a_call_waits_for_it():
    with link() as (outbound, _):
        inbound = Inbound(outbound)
        assert outbound.ping() == 1
        ack(outbound)
        assert outbound.ask_what_arrived()
        assert outbound.ping() == 3
        assert pong(inbound) == [(EVENT_PONG, None)]
        assert outbound.pongs == 1
        assert outbound.kept_bytes == len(FRAME)
        assert pong(inbound) == []
        assert outbound.kept_bytes == 0
        assert pong(inbound) == [(EVENT_PONG, None)]
        assert outbound.pongs == 3
        # One that was not asked for answers nothing.
        ack(outbound)
        assert pong(inbound) == [(EVENT_PONG, None)]
        assert (outbound.pongs, outbound.kept_bytes) == (3, len(FRAME))


def test_an_answer_of_the_last_link_says_nothing_about_this_one():
    with link() as (outbound, _):
        inbound = Inbound(outbound)
        ack(outbound)
        assert outbound.ask_what_arrived()
        outbound.detach()
        assert outbound.ask_what_arrived()  # later, on the next link
        assert over_the_next_link(outbound, len(FRAME)) == FRAME
        assert pong(inbound) == [(EVENT_PONG, None)]
        assert outbound.kept_bytes == len(FRAME)


def test_the_owner_is_told_of_the_first_that_is_kept_and_asks_until_none_is(kept):
    outbound, told = kept
    inbound = Inbound(outbound)
    with pair() as (ours, _theirs):
        outbound.attach(ours.fileno(), b"", 1 << 20)
        for _ in range(5):
            ack(outbound)
        assert len(told) == 1
        assert outbound.ask_what_arrived()
        assert pong(inbound) == []
        ack(outbound)
        assert len(told) == 1  # it goes on to ask
        assert outbound.ask_what_arrived()
        assert pong(inbound) == []
        assert not outbound.ask_what_arrived()
        ack(outbound)
        assert len(told) == 2
        outbound.close()
        assert not outbound.ask_what_arrived()


def test_much_is_asked_about_at_once_and_too_much_is_forgotten(kept):
    outbound, told = kept
    inbound = Inbound(outbound)
    each = len(FRAME)
    with pair() as (ours, _theirs):
        outbound.attach(ours.fileno(), b"", 1 << 20)
        for _ in range(MORE // each + 2):
            ack(outbound)
        assert (len(told), outbound.pings) == (1, 1)
        for _ in range((MOST - MORE) // each):
            ack(outbound)
        # Nothing arrives: there is one PING at a time, and the bound holds.
        assert outbound.pings == 1
        assert 0 < outbound.kept_bytes < MOST
        assert pong(inbound) == []
        for _ in range(MORE // each + 2):
            ack(outbound)
        assert outbound.pings == 2


# -- what was said about the messages of a batch ---------------------------------------------------


def four():
    """A batch of four messages, and their connection."""
    inbound, _ = receiver()
    owner = Owner(Outbound(offline_limit=1 << 30))
    mailbox = Mailbox(msg_type=JetStreamMsg, owner=owner)
    sid = inbound.add(mailbox)
    for n in range(4):
        inbound.feed(message(b"a", sid, reply=b"$JS.ACK.%d" % n))
    batch = mailbox.new_batch(MsgBatch, owner._outbound)
    mailbox.take_into(batch, 10)
    return batch, owner


def said(outbound):
    lines = outbound.peek().split(b"\r\n")
    return [line.split(b" ")[1] for line in lines if line.startswith(b"PUB")]


def test_a_batch_answers_for_those_that_are_not_settled():
    messages, owner = four()
    messages[1].nak()
    assert ack_all(messages, b"+ACK", None, DONE | ACKED) == 3
    assert said(owner._outbound) == [b"$JS.ACK.%d" % n for n in (1, 0, 2, 3)]
    assert [msg._flags for msg in messages] == [3, 1, 3, 3]
    assert ack_all(messages, b"+ACK", None, DONE | ACKED) == 0
    assert unconfirmed_rows(messages) == [0, 2, 3]
    messages._note(DONE | ACKED | CONFIRMED)
    assert unconfirmed_rows(messages) == []
    assert [msg._flags for msg in messages] == [7, 1, 7, 7]


def test_messages_that_are_made_later_know_what_was_said_before():
    messages, _ = four()
    messages._note(DONE | ACKED)
    assert [msg._flags for msg in messages] == [3] * 4
    assert messages[2].is_acked


def test_messages_outlive_their_batch():
    messages, _ = four()
    kept = [messages[0], messages[3]]
    del messages
    kept[0].ack()
    assert [msg.is_acked for msg in kept] == [True, False]
