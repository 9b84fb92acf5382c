"""The compiled core and the plain-Python reference agree on everything they both can read.

Derandomized: the same examples at every run, so a failure here is a change of the code. Longer
random runs are the business of tests/fuzz.
"""

from __future__ import annotations

import json

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync._core.batch import MsgBatch
from jetsync._core.encoding import encode_headers, encode_sub, encode_unsub
from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import parse_jsack, parse_puback
from jetsync._core.outbound import Outbound
from jetsync.errors import ConfigError, NotJetStreamMessageError
from jetsync.headers import Headers
from tests.wire import reference, streams
from tests.wire.outcome import by_core, by_reference, drained, raw, split

fixed = settings(derandomize=True, deadline=None, database=None, max_examples=250)


def differ(data, cuts):
    pieces = split(data, cuts)
    core = by_core(pieces, streams.SIDS, streams.MAX_SIZE)
    assert core == by_reference(pieces, streams.SIDS, streams.MAX_SIZE)
    return core


@fixed
@given(streams.valid_streams, streams.cuts)
def test_a_valid_stream_comes_out_the_same_in_whatever_pieces_it_comes(data, cuts):
    outcome = differ(data, cuts)
    assert not outcome.bad
    assert outcome == by_core([data], streams.SIDS, streams.MAX_SIZE)


@fixed
@given(streams.hostile_streams(), streams.cuts)
def test_a_hostile_stream_gives_the_same_messages_up_to_the_same_error(data, cuts):
    assert differ(data, cuts) == by_core([data], streams.SIDS, streams.MAX_SIZE)


@fixed
@given(st.binary(max_size=80), streams.cuts)
def test_random_bytes_are_refused_alike(data, cuts):
    differ(data, cuts)


# -- sending -------------------------------------------------------------------------------------

# Mostly fine, with the bytes that could break framing mixed in.
_name = st.text("ab.*>$_- \r\n\t\x00\x7f\x80é", max_size=8)
_long = st.integers(4060, 4100).map(lambda n: "s" * n)


def published(subject, reply, header, payload):
    outbound = Outbound()
    try:
        outbound.publish(subject, payload, reply, header)
    except ConfigError:
        assert outbound.peek() == b""
        return None
    return outbound.peek()


def expected(encode, *args):
    try:
        return encode(*args)
    except reference.Invalid:
        return None


@fixed
@given(
    st.one_of(_name, _long),
    st.one_of(st.none(), _name.filter(bool)),
    st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n"]),
    streams.payloads,
)
def test_publish_encodes_and_refuses_like_the_reference(subject, reply, header, payload):
    core = published(subject, reply, header, payload)
    replied = b"" if reply is None else reply.encode()
    assert core == expected(reference.encode_pub, subject.encode(), replied, header, payload)


@fixed
@given(st.one_of(_name, _long), st.one_of(st.none(), _name.filter(bool)), st.integers(0, 2**64 - 1))
def test_subscribe_encodes_and_refuses_like_the_reference(subject, queue, sid):
    try:
        core = encode_sub(subject, queue, sid)
    except ConfigError:
        core = None
    queued = b"" if queue is None else queue.encode()
    assert core == expected(reference.encode_sub, subject.encode(), queued, sid)


@fixed
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_unsubscribe_encodes_like_the_reference(sid, max_messages):
    assert encode_unsub(sid, max_messages) == reference.encode_unsub(sid, max_messages)


@fixed
@given(
    st.lists(
        st.tuples(_name, st.one_of(_name, st.lists(st.one_of(_name, st.binary(max_size=5))))),
        min_size=1,
        max_size=4,
    )
)
def test_header_blocks_are_encoded_and_refused_like_the_reference(items):
    mapping = dict(items)
    lines = [
        (name.encode(), value.encode() if isinstance(value, str) else value)
        for name, values in mapping.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    try:
        core = encode_headers(mapping)
    except ConfigError:
        core = None
    assert core == expected(reference.encode_header_block, lines)


@fixed
@given(
    st.text("ab.é-", min_size=1, max_size=8),
    st.one_of(st.none(), st.text("ab.é-", min_size=1, max_size=8)),
    st.dictionaries(
        st.text("Ab-_!~", min_size=1, max_size=5),
        st.lists(st.text("v:\t é", max_size=5).map(str.strip), min_size=1, max_size=3),
        max_size=3,
    ),
    streams.payloads,
)
def test_what_is_published_is_what_a_subscriber_reads(subject, reply, headers, payload):
    """The server passes the bytes on: PUB becomes MSG, with the subscription id put in."""
    block = encode_headers(headers)
    line, body = published(subject, reply, block, payload).split(b"\r\n", 1)
    verb, name, *rest = line.split(b" ")
    delivered = b" ".join([verb.replace(b"PUB", b"MSG"), name, b"1", *rest]) + b"\r\n" + body

    box = Mailbox()
    inbound = Inbound(Outbound())
    inbound.add(box)
    assert inbound.feed(delivered) == []
    (msg,) = drained(box)
    assert (msg.subject, msg.reply, msg.data) == (subject, reply, payload)
    assert msg.headers == headers


# -- headers, three readers of the same bytes ------------------------------------------------------


def column(block, *, text):
    """The header cell of one message with this block."""
    box = Mailbox()
    inbound = Inbound(Outbound())
    inbound.add(box)
    assert inbound.feed(b"HMSG s 1 %d %d\r\n%s\r\n" % (len(block), len(block), block)) == []
    msg = drained(box)[0]
    # Fed again for the batch: a status message would not get into it.
    plain = block + b"x"
    assert inbound.feed(b"HMSG s 1 %d %d\r\n%s\r\n" % (len(block), len(plain), plain)) == []
    batch = box.new_batch(MsgBatch, None)
    box.take_into(batch, 10)
    capsules = batch._arrow_capsules(["headers"], text)
    exported = pyarrow.record_batch(Capsules(*capsules))
    exported.validate(full=True)
    (cell,) = exported.column(0).to_pylist()
    return msg, cell


class Capsules:
    """What pyarrow takes: an object with the Arrow C data interface."""

    def __init__(self, schema, array):
        self._pair = schema, array

    def __arrow_c_array__(self, requested_schema=None):
        return self._pair


@fixed
@given(streams.header_blocks)
def test_three_readers_of_a_header_block_agree(block):
    lines, malformed = reference.header_lines(block)
    gathered = reference.header_columns(block)

    headers = Headers.parse(block)
    assert headers.malformed == malformed
    assert {raw(k): [raw(v) for v in vs] for k, vs in headers.to_dict().items()} == dict(gathered)
    assert sum(len(values) for _, values in gathered) == len(lines)

    msg, cell = column(block, text=False)
    assert msg.status == reference.header_status(block)
    if not block:
        assert cell is None
        return
    assert cell == [(reference.lossy(name), values) for name, values in gathered]
    _, cell = column(block, text=True)
    assert cell == [
        (reference.lossy(n), [reference.lossy(v) for v in values]) for n, values in gathered
    ]


# -- acknowledgements ----------------------------------------------------------------------------

_token = st.one_of(
    st.sampled_from([b"_", b"S", b"0", b"1", b"18446744073709551615", b"9223372036854775807"]),
    st.sampled_from([b"", b"-1", b"1x", b"18446744073709551616", b"9223372036854775808", b"\xff"]),
    st.integers(0, 2**64 - 1).map(lambda n: b"%d" % n),
)


@fixed
@given(st.sampled_from([b"$JS.ACK.", b"$JS.ACK", b"$JS.ACK..", b"$js.ack."]), st.lists(_token))
def test_acknowledgement_subjects_are_read_like_the_reference(prefix, tokens):
    check_jsack(prefix + b".".join(tokens))


@fixed
@given(
    st.lists(st.integers(0, 2**63).map(lambda n: b"%d" % n), min_size=5, max_size=5),
    st.sampled_from([[], [b"_", b"H"], [b"dom", b"H"]]),
    st.lists(st.sampled_from([b"x", b"1"]), max_size=3),
)
def test_both_forms_of_acknowledgement_subjects_are_read(numbers, front, back):
    tokens = [b"$JS", b"ACK", *front, b"S", b"C", *numbers, *back]
    check_jsack(b".".join(tokens))


def check_jsack(reply):
    try:
        texts = reference.parse_jsack(reply)
    except reference.NotAnAck:
        with pytest.raises(NotJetStreamMessageError):
            parse_jsack(reply)
        return
    decoded = tuple(t.decode("utf-8", "replace") for t in texts[:4])
    assert parse_jsack(reply) == decoded + texts[4:]
    assert parse_jsack(raw_text(reply)) == decoded + texts[4:]


def raw_text(reply):
    return reply.decode("utf-8", "surrogateescape")


_json_value = st.one_of(
    st.integers(-5, 2**64), st.booleans(), st.none(), st.text(max_size=4), st.just({"code": 1})
)


@fixed
@given(
    st.dictionaries(
        st.sampled_from(["stream", "seq", "duplicate", "domain", "val", "error", "x"]),
        _json_value,
    ),
    st.booleans(),
)
def test_a_publish_acknowledgement_read_in_c_says_what_json_says(members, compact):
    text = json.dumps(members, separators=(",", ":") if compact else None, ensure_ascii=False)
    found = parse_puback(text.encode())
    if found is not None:
        assert found == (members["stream"], members["seq"], members.get("duplicate") is True)
        assert "error" not in members


@fixed
@given(
    st.text("SABC-_é", min_size=1, max_size=6),
    st.integers(1, 2**64 - 1),
    st.sampled_from([{}, {"duplicate": True}, {"domain": "hub"}, {"batch": "b", "count": 2}]),
)
def test_the_usual_publish_acknowledgements_are_all_read_in_c(stream, seq, more):
    text = json.dumps({"stream": stream, "seq": seq, **more}, ensure_ascii=False)
    assert parse_puback(text.encode()) == (stream, seq, "duplicate" in more)
