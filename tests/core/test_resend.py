"""What the outbound side keeps until it is known to have arrived: acknowledgements."""

from __future__ import annotations

import pytest

from jetsync._core.batch import ack_all, unconfirmed_rows
from jetsync._core.delivered import publish_ack
from jetsync._core.handles import Publishing
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


@pytest.fixture
def asked():
    """An outbound side without a link, and what it has asked for."""
    outbound = Outbound(offline_limit=1 << 30)
    wanted: list[int] = []
    outbound.on_resend = wanted.append
    return outbound, wanted


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


def test_what_has_arrived_is_not_sent_again():
    with link() as (outbound, theirs):
        ack(outbound)
        point = outbound.resend_point()
        ack(outbound, b"+TERM")
        read(theirs, len(FRAME) * 2 + 1)
        assert outbound.arrived(point, True)
        outbound.detach()
        term = b"PUB $JS.ACK.1 5\r\n+TERM\r\n"
        assert over_the_next_link(outbound, len(term)) == term
        assert not outbound.arrived(outbound.resend_point(), True)
        assert not outbound.arrived(point, True)  # an old answer changes nothing


def test_the_owner_is_asked_to_find_out_once(asked):
    outbound, wanted = asked
    for _ in range(5):
        ack(outbound)
    assert wanted == [1]
    assert not outbound.arrived(outbound.resend_point(), True)
    ack(outbound)
    assert wanted == [1, 1]


def test_a_question_in_between_ends_nothing(asked):
    """Only when the one who asks again and again has been told that nothing is left it is over."""
    outbound, wanted = asked
    ack(outbound)
    assert not outbound.arrived(outbound.resend_point(), False)
    ack(outbound)
    assert wanted == [1]
    assert not outbound.arrived(outbound.resend_point(), True)
    assert not outbound.arrived(outbound.resend_point(), False)  # it comes late
    ack(outbound)
    assert wanted == [1, 1]


def test_much_is_asked_about_at_once_and_too_much_is_forgotten(asked):
    outbound, wanted = asked
    each = len(FRAME)
    for _ in range(MORE // each + 2):
        ack(outbound)
    assert wanted == [1, 2]
    for _ in range((MOST - MORE) // each):
        ack(outbound)
    # Nothing arrives: the bound holds, and what comes now is kept again.
    assert outbound.arrived(0, False)
    assert len(wanted) >= 8
    ack(outbound)
    assert outbound.arrived(0, False)


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
