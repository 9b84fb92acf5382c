"""A message owns its bytes, decodes lazily, and gives back exactly what came."""

from __future__ import annotations

import pickle
import weakref

import pytest

from jetsync._core.message import Msg, message_jsack, parse_jsack, parse_puback
from jetsync.errors import ConfigError, NotJetStreamMessageError
from tests.core.kit import Held, block, fill, message, receiver


def received(data, **options):
    inbound, box = receiver(**options)
    assert inbound.feed(data) == []
    return box.get(0)


def test_the_parts_of_a_message():
    header = block(b"A: 1", b"a: 2", b"A: 3")
    msg = received(message(b"s.t", 1, b"payload", reply=b"rep", header=header))
    assert (msg.subject, msg.reply, msg.data) == ("s.t", "rep", b"payload")
    assert msg.raw_headers == header
    assert msg.headers == {"A": ["1", "3"], "a": "2"}
    assert msg.headers is msg.headers  # parsed once
    assert (msg.status, msg.description) == (0, "")
    assert msg.size == 3 + 3 + len(header) + 7
    assert repr(msg) == "Msg(subject='s.t', reply='rep', 7 bytes)"


def test_a_payload_of_json_is_read_at_once():
    assert received(message(b"s", 1, b'{"n": [1, 2]}')).json() == {"n": [1, 2]}
    for data in (b"", b"{", b"\xff\xfe\xfd"):
        with pytest.raises(ValueError, match=r"."):
            received(message(b"s", 1, data)).json()


def test_what_is_absent():
    msg = received(message(b"s", 1))
    assert msg.reply is None
    assert msg.data == msg.raw_headers == b""
    assert len(msg.headers) == 0
    assert msg.headers.get("A") is None


def test_a_status_and_its_text():
    msg = received(message(b"s", 1, header=block(status=b"404 No Messages")))
    assert (msg.status, msg.description, msg.data) == (404, "No Messages", b"")


def test_bytes_that_are_not_utf8_come_back_as_they_were():
    header = b"NATS/1.0\r\nK\xff: \xc3\r\n\r\n"
    msg = received(message(b"a.\xff", 1, reply=b"r.\xfe", header=header))
    assert msg.subject.encode("utf-8", "surrogateescape") == b"a.\xff"
    assert msg.reply.encode("utf-8", "surrogateescape") == b"r.\xfe"
    assert msg.raw_headers == header
    ((name, (value,)),) = msg.headers.to_dict().items()
    assert name.encode("utf-8", "surrogateescape") == b"K\xff"
    assert value.encode("utf-8", "surrogateescape") == b"\xc3"


def test_malformed_headers_are_counted_never_raised():
    msg = received(message(b"s", 1, header=b"GARBAGE"))
    assert (len(msg.headers), msg.headers.malformed) == (0, 1)


def test_a_message_is_immutable():
    msg = received(message(b"s", 1))
    for name in ("subject", "data", "raw_headers", "status", "reply", "headers"):
        with pytest.raises(AttributeError):
            setattr(msg, name, None)


def test_a_message_outlives_its_mailbox():
    inbound, box = receiver()
    fill(inbound, *[b"%d" % i * 1000 for i in range(100)])
    kept = [box.get(0) for _ in range(100)]
    box.discard()
    fill(inbound, *[b"z" * 5000] * 100)
    del inbound, box
    assert [msg.data for msg in kept] == [b"%d" % i * 1000 for i in range(100)]


def test_the_subject_text_is_shared_between_messages_in_a_row():
    inbound, box = receiver()
    inbound.feed(message(b"same") * 2 + message(b"other") + message(b"same"))
    one, two, other, again = (box.get(0) for _ in range(4))
    assert one.subject is two.subject
    assert other.subject == "other"
    assert again.subject == "same"


class SubMsg(Msg):
    """A message class of an upper room."""


def test_a_mailbox_makes_messages_of_the_class_it_was_given():
    context, owner = Held(), Held()
    msg = received(message(b"s", 1), msg_type=SubMsg, context=context, owner=owner)
    assert type(msg) is SubMsg
    assert msg._context is context
    assert msg._owner is owner


def test_a_mailbox_keeps_no_owner_alive_but_a_message_does():
    """The reader thread knows every mailbox: a forgotten connection must be seen as forgotten."""
    owner = Held()
    gone = weakref.ref(owner)
    inbound, box = receiver(owner=owner)
    inbound.feed(message(b"s", 1) * 2)
    msg = box.get(0)
    del owner
    assert msg._owner is gone()
    del msg
    assert gone() is None
    assert box.get(0)._owner is None


@pytest.mark.parametrize("kind", [Msg, SubMsg])
def test_a_message_pickles_with_its_bytes_and_without_its_connection(kind):
    header = block(b"A: b", status=b"503")
    data = message(b"s.\xff", 1, reply=b"r.\xfe", header=header)
    owner = Held()
    msg = received(data, msg_type=kind, owner=owner)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(msg, protocol))
        assert type(copy) is kind
        assert (copy.subject, copy.reply, copy.data) == (msg.subject, msg.reply, msg.data)
        assert (copy.raw_headers, copy.status) == (header, 503)
        assert copy._owner is None
        with pytest.raises(ConfigError, match="not bound"):
            copy.respond(b"")


def test_build_makes_a_message_from_its_parts():
    msg = Msg._make("s", b"d", "r.\udcff", block(b"A: b"), 7, owner="nc")
    assert (msg.subject, msg.data, msg.reply, msg.status) == ("s", b"d", "r.\udcff", 7)
    assert msg.headers == {"A": "b"}
    assert msg._owner == "nc"
    bare = Msg._make("s")
    assert (bare.data, bare.reply, bare.raw_headers, bare.status) == (b"", None, b"", 0)


# -- answering -----------------------------------------------------------------------------------


class Owner:
    """As much of a connection as a message sees."""

    def __init__(self):
        self.published = []

    def publish(self, subject, data, *, headers=None):
        self.published.append((subject, data, headers))


def test_respond_publishes_to_the_reply_subject():
    owner = Owner()
    msg = received(message(b"s", 1, reply=b"r"), owner=owner)
    msg.respond(b"answer", {"A": "b"})
    assert owner.published == [("r", b"answer", {"A": "b"})]


def test_respond_needs_a_reply_subject_and_a_connection():
    with pytest.raises(ConfigError, match="no reply subject"):
        received(message(b"s", 1), owner=Owner()).respond(b"")
    with pytest.raises(ConfigError, match="not bound"):
        received(message(b"s", 1, reply=b"r")).respond(b"")


# -- what is read from replies and payloads --------------------------------------------------------

ACK = "$JS.ACK.S.C.2.35.7.1795229586547204964.12"


def test_jsack_fields_in_both_forms():
    fields = ("S", "C", 2, 35, 7, 1795229586547204964, 12)
    assert parse_jsack(ACK) == parse_jsack(ACK.encode()) == ("", "", *fields)
    rest = ACK.removeprefix("$JS.ACK.")
    assert parse_jsack(f"$JS.ACK.hub.HASH.{rest}") == ("hub", "HASH", *fields)
    assert parse_jsack(f"$JS.ACK._.HASH.{rest}.token") == ("", "HASH", *fields)
    assert message_jsack(received(message(b"s", 1, reply=ACK.encode()))) == ("", "", *fields)


@pytest.mark.parametrize("reply", [None, "", "_INBOX.1", "$JS.ACK.S.C.1.2.3.4", b"\xff"])
def test_other_replies_are_not_acknowledgement_subjects(reply):
    with pytest.raises(NotJetStreamMessageError):
        parse_jsack(reply)
    with pytest.raises(NotJetStreamMessageError):
        message_jsack(received(message(b"s", 1)))


def test_puback_reads_the_usual_form_and_leaves_the_rest_to_json():
    assert parse_puback(b'{"stream":"GP","seq":1}') == ("GP", 1, False)
    assert parse_puback(b'{"stream":"GP","seq":2,"duplicate": true}') == ("GP", 2, True)
    for other in (b"", b"{}", b'{"error":{"code":400},"stream":"GP","seq":0}', b"+ACK"):
        assert parse_puback(other) is None
    with pytest.raises(TypeError):
        message_jsack(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        parse_puback(None)  # type: ignore[arg-type]
