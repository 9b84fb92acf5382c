"""Acknowledgements read and lines written as the tables say, by all three implementations."""

from __future__ import annotations

import pytest

from jetsync._core.encoding import encode_headers, encode_sub, encode_unsub
from jetsync._core.message import parse_jsack, parse_puback
from jetsync._core.outbound import Outbound
from jetsync.errors import ConfigError, NotJetStreamMessageError
from tests.csrc import library
from tests.wire import reference, tables
from tests.wire.outcome import raw

title = lambda case: case.title  # noqa: E731  the ids of the cases
each_jsack = pytest.mark.parametrize("case", tables.jsacks(), ids=title)
each_puback = pytest.mark.parametrize("case", tables.pubacks(), ids=title)
each_encoding = pytest.mark.parametrize("case", tables.encodings(), ids=title)
VERSION = b"NATS/1.0\r\n"


@each_jsack
def test_an_acknowledgement_subject_is_read_as_written(case):
    assert library.parse_jsack(case.text) == case.fields
    if case.fields is None:
        with pytest.raises(reference.NotAnAck):
            reference.parse_jsack(case.text)
        with pytest.raises(NotJetStreamMessageError):
            parse_jsack(case.text)
        return
    assert reference.parse_jsack(case.text) == case.fields
    texts = tuple(text.decode("utf-8", "replace") for text in case.fields[:4])
    assert parse_jsack(case.text) == texts + case.fields[4:]


@each_jsack
def test_an_acknowledgement_subject_cut_off_anywhere_is_never_misread(case):
    """Every beginning of it is read alike by the library and the reference."""
    for end in range(len(case.text)):
        part = case.text[:end]
        try:
            expected = reference.parse_jsack(part)
        except reference.NotAnAck:
            expected = None
        assert library.parse_jsack(part) == expected


@each_puback
def test_the_answer_to_a_publish_is_read_as_written(case):
    assert library.parse_puback(case.text) == case.stored
    found = parse_puback(case.text)
    if case.stored is None:
        assert found is None
    else:
        stream, seq, duplicate = case.stored
        assert found == (stream.decode(), seq, duplicate)
        for end in range(len(case.text.rstrip())):
            assert library.parse_puback(case.text[:end]) is None


@each_encoding
def test_a_line_is_written_by_the_library_as_the_table_says(case):
    assert library.encoded(case.verb, *_arguments(case)) == (_bare(case), case.refused)


@each_encoding
def test_a_line_is_written_by_the_reference_as_the_table_says(case):
    try:
        sent, refused = _by_reference(case), ""
    except reference.Invalid as error:
        sent, refused = b"", str(error)
    assert (sent, refused) == (case.sent, case.refused)


@each_encoding
def test_a_line_is_written_by_the_extension_as_the_table_says(case):
    try:
        sent = _by_extension(case)
    except ConfigError:
        assert case.refused
    else:
        assert sent == case.sent
        assert not case.refused


def _arguments(case):
    if case.verb == "pub":
        return case.subject, case.second, case.header, case.payload
    if case.verb == "answer":
        return case.subject, case.second, case.payload
    if case.verb == "sub":
        return case.subject, case.second, case.sid
    if case.verb == "unsub":
        return case.sid, case.max_messages
    return case.subject, case.second


def _bare(case):
    """The library writes header lines one by one; the block around them is the caller's."""
    if case.verb == "header" and case.sent:
        assert case.sent.startswith(VERSION)
        return case.sent[len(VERSION) : -2]
    return case.sent


def _by_reference(case):
    if case.verb == "pub":
        return reference.encode_pub(case.subject, case.second, case.header, case.payload)
    if case.verb == "answer":
        return reference.encode_answer(case.subject, case.second, case.payload)
    if case.verb == "sub":
        return reference.encode_sub(case.subject, case.second, case.sid)
    if case.verb == "unsub":
        return reference.encode_unsub(case.sid, case.max_messages)
    return reference.encode_header_block([(case.subject, case.second)])


def _by_extension(case):
    outbound = Outbound()
    subject, second = (
        part.decode("utf-8", "surrogateescape") for part in (case.subject, case.second)
    )
    if case.verb == "header":
        return encode_headers({subject: second})
    try:
        if case.verb == "pub":
            outbound.publish(subject, case.payload, second or None, case.header)
        elif case.verb == "answer":
            outbound.ask(subject, second, case.payload)
        elif case.verb == "sub":
            return encode_sub(subject, second or None, case.sid)
        else:
            return encode_unsub(case.sid, case.max_messages)
    except ConfigError:
        assert outbound.peek() == b""  # a refusal leaves no trace
        raise
    assert raw(subject) == case.subject
    return outbound.peek()
