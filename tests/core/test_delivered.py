"""What is said about a delivered message: once, to its reply subject, and only with its leave."""

from __future__ import annotations

import pytest

from jetsync._core.delivered import Delivered, is_settled
from jetsync._core.handles import Publishing
from jetsync._core.message import ACKED, DONE, Msg
from jetsync._core.outbound import Outbound
from jetsync.errors import ConfigError, ConnectionClosedError, NotJetStreamMessageError
from tests.core.kit import Held, client_frames, message, receiver

REPLY = b"$JS.ACK.S.C.1.1.1.1.0"


class Owner(Publishing):
    """As much of a connection as a message sees."""

    def __init__(self):
        super().__init__(Outbound())

    def said(self):
        """What was published, and to which subject."""
        return [(sent.subject, sent.payload) for sent in client_frames(self._outbound.peek())]


class Context:
    """As much of a consumer as a message sees."""

    def __init__(self, ack_none=False):
        self.ack_none = ack_none


class Late(Delivered):
    """A message class as in jetstream/, whose hook is called for late acknowledgements."""

    def _late(self):
        raise AssertionError("it was acknowledged at once")


def delivered(owner=None, context=None, reply=REPLY):
    inbound, box = receiver(msg_type=Late, owner=owner, context=context)
    inbound.feed(message(b"s", 1, reply=reply))
    return box.get(0)


def test_it_is_acknowledged_once():
    owner = Owner()
    msg = delivered(owner)
    assert not msg.is_acked
    msg.ack()
    assert (msg.is_acked, msg._flags) == (True, DONE | ACKED)
    msg.ack()
    msg.in_progress()
    msg._settle(b"-NAK", DONE, False)
    assert owner.said() == [(REPLY, b"+ACK")]
    assert msg._flags == DONE | ACKED


def test_what_is_in_progress_is_not_settled():
    owner = Owner()
    msg = delivered(owner)
    msg.in_progress()
    msg.in_progress()
    msg._settle(b"-NAK", DONE, False)
    assert msg.is_acked
    assert [payload for _, payload in owner.said()] == [b"+WPI", b"+WPI", b"-NAK"]


@pytest.mark.parametrize("say", [Delivered.ack, Delivered.in_progress])
def test_nothing_is_said_where_no_server_waits_for_it(say):
    """With ack policy none every acknowledgement is ignored."""
    owner, context = Owner(), Context(ack_none=True)
    msg = delivered(owner, context)
    say(msg)
    assert is_settled(msg)
    assert not msg.is_acked
    assert owner.said() == []


def test_an_answer_goes_to_the_very_bytes_of_the_reply_subject():
    owner = Owner()
    msg = delivered(owner, Context(), reply=b"$JS.ACK.*.\xff")
    msg.ack()
    assert owner._outbound.peek() == b"PUB $JS.ACK.*.\xff 4\r\n+ACK\r\n"


@pytest.mark.parametrize("say", [Delivered.ack, Delivered.in_progress])
def test_an_answer_needs_a_reply_subject_a_connection_and_its_leave(say):
    owner = Owner()
    with pytest.raises(NotJetStreamMessageError):
        say(delivered(owner, reply=b""))
    with pytest.raises(ConfigError, match="not bound"):
        say(delivered())
    owner._refusal = lambda: ConnectionClosedError("closed")
    refused = delivered(owner)
    with pytest.raises(ConnectionClosedError):
        say(refused)
    assert not refused.is_acked
    assert owner._outbound.peek() == b""


def test_an_owner_is_a_connection():
    """Nothing else has what an answer needs; it is refused, not trusted."""
    owner = Held()
    with pytest.raises(TypeError):
        delivered(owner).ack()


def test_the_garbage_collector_does_not_look_at_messages():
    """They refer to what is above them only; each would cost the collector a visit."""
    collected = 1 << 14  # Py_TPFLAGS_HAVE_GC
    assert not Msg.__flags__ & collected
    assert not Delivered.__flags__ & collected
