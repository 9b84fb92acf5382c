"""ServerErrorInfo: each text of the server, which error it is and whether the link ends."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.errors import (
    AuthorizationError,
    Error,
    MaxPayloadError,
    PermissionsError,
    ServerError,
    StaleConnectionError,
    TLSRequiredError,
)
from jetsync.protocol.server_errors import ServerErrorInfo

SAMPLES = Path(__file__).parents[1] / "wire" / "wire-samples.json"
OPEN = {
    "err_invalid_subject",
    "err_invalid_publish_subject",
    "err_perm_publish",
    "err_perm_subscribe",
    "err_perm_subscribe_queue",
    "err_max_subscriptions",
}


def err_frames() -> list[tuple[str, bytes]]:
    samples = json.loads(SAMPLES.read_text())["samples"]
    frames = [(s["name"], base64.b64decode(s["base64"])) for s in samples]
    return [(name, frame) for name, frame in frames if frame.startswith(b"-ERR")]


@pytest.mark.parametrize(("name", "frame"), err_frames())
def test_every_captured_error_is_known(name: str, frame: bytes) -> None:
    info = ServerErrorInfo.parse(frame)
    assert info.closes is (name not in OPEN)
    assert info.text in frame.decode()
    assert not info.text.startswith(("'", "-"))
    assert str(info.error).startswith(info.text)
    assert ServerErrorInfo.parse(frame[len(b"-ERR ") : -2]) == info


@pytest.mark.parametrize(
    ("text", "closes", "kind"),
    [
        ("Unknown Protocol Operation", True, ServerError),
        ("Maximum Payload Violation", True, MaxPayloadError),
        ("maximum control line exceeded", True, ServerError),
        ("Authorization Violation", True, AuthorizationError),
        ("authorization violation", True, AuthorizationError),
        ("Authentication Timeout", True, AuthorizationError),
        ("User Authentication Expired", True, AuthorizationError),
        ("Account Authentication Expired", True, AuthorizationError),
        ("User Authentication Revoked", True, AuthorizationError),
        ("maximum connections exceeded", True, ServerError),
        ("maximum account active connections exceeded", True, ServerError),
        ("no responders requires headers support", True, ServerError),
        ("invalid client protocol", True, ServerError),
        ("Stale Connection", True, StaleConnectionError),
        ("Secure Connection - TLS Required", True, TLSRequiredError),
        ("Connection throttling is active. Please try again later.", True, ServerError),
        ("Invalid Subject", False, ServerError),
        ("Invalid Publish Subject", False, ServerError),
        ("maximum subscriptions exceeded", False, ServerError),
        ("something new in 3.0", False, ServerError),
        ("", False, ServerError),
    ],
)
def test_known_texts_have_their_error_and_their_end(
    text: str, closes: bool, kind: type[Error]
) -> None:
    info = ServerErrorInfo.parse(f"'{text}'")
    assert (info.text, info.closes, type(info.error)) == (text, closes, kind)
    assert (info.operation, info.subject, info.queue, info.sid) == (None, None, None, None)


PUB = "Permissions Violation for Publish to "
SUB = "Permissions Violation for Subscription to "


@pytest.mark.parametrize(
    ("text", "operation", "subject", "queue", "sid"),
    [
        (PUB + '"no.x"', "publish", "no.x", None, None),
        (
            'Permissions Violation for Publish with Reply of "r.1"',
            "reply",
            "r.1",
            None,
            None,
        ),
        (SUB + '"no.>"', "subscribe", "no.>", None, None),
        (SUB + '"no.y" using queue "grp"', "subscribe", "no.y", "grp", None),
        (SUB + '"keep.>" (sid "1")', "subscribe", "keep.>", None, 1),
        (SUB + '"k" using queue "q1" (sid "77")', "subscribe", "k", "q1", 77),
        (SUB + '"k" (sid "abc")', "subscribe", "k", None, None),
        (SUB + '"a.b", too many tokens', "subscribe", "a.b", None, None),
        # Quotes, backslashes, control and other characters, as a server escapes them ...
        (PUB + r'"no.a\"b"', "publish", 'no.a"b', None, None),
        (SUB + r'"no.a\",b" using queue "q\"u"', "subscribe", 'no.a",b', 'q"u', None),
        (SUB + r'"no.a\\b" (sid "9")', "subscribe", "no.a\\b", None, 9),
        (PUB + r'"no.\x01\u00ad\U0001f600"', "publish", "no.\x01\u00ad\U0001f600", None, None),
        (PUB + r'"no.\xff"', "publish", "no.\udcff", None, None),
        (PUB + r'"no.\U99999999\q"', "publish", r"no.\U99999999\q", None, None),
        (PUB + '"no.é"', "publish", "no.é", None, None),
        (PUB + '"no.a\'b"', "publish", "no.a'b", None, None),
        # ... and as one that does not would write them.
        (PUB + '"no.a"b"', "publish", 'no.a"b', None, None),
        (SUB + '"x"y" using queue "q"r" (sid "3")', "subscribe", 'x"y', 'q"r', 3),
        # Whatever else a later server adds.
        (SUB + '"k" for a new reason (sid "5") and more', "subscribe", "k", None, 5),
        (PUB.lower() + '"A.b"', "publish", "A.b", None, None),
    ],
)
def test_a_missing_permission_says_what_for(
    text: str, operation: str, subject: str, queue: str | None, sid: int | None
) -> None:
    info = ServerErrorInfo.parse(f"-ERR '{text}'\r\n".encode())
    assert (info.operation, info.subject, info.queue, info.sid) == (operation, subject, queue, sid)
    assert info.closes is False
    error = info.error
    assert isinstance(error, PermissionsError)
    assert (error.operation, error.subject, error.queue) == (operation, subject, queue)
    assert str(error) == info.text == text


def test_a_permission_text_of_an_unknown_form_is_still_a_permissions_error() -> None:
    info = ServerErrorInfo.parse("'Permissions Violation for something else'")
    assert type(info.error) is PermissionsError
    assert info.subject is None


def test_it_survives_pickling_with_its_error() -> None:
    info = ServerErrorInfo.parse(SUB + '"k" using queue "q" (sid "7")')
    again = pickle.loads(pickle.dumps(info))
    assert again == info
    assert isinstance(again.error, PermissionsError)
    assert (again.error.subject, again.error.queue) == ("k", "q")


@settings(deadline=None)
@given(st.binary(max_size=120) | st.text(max_size=120))
def test_no_text_raises(raw: bytes | str) -> None:
    info = ServerErrorInfo.parse(raw)
    assert isinstance(info.error, Error)


SUBJECT = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="\\"), min_size=1
)


@settings(deadline=None)
@given(SUBJECT, SUBJECT | st.none(), st.integers(0, 2**64 - 1) | st.none())
def test_what_a_server_quotes_comes_back_as_it_was(
    subject: str, queue: str | None, sid: int | None
) -> None:
    text = SUB + json.dumps(subject)
    if queue is not None:
        text += f" using queue {json.dumps(queue)}"
    if sid is not None:
        text += f' (sid "{sid}")'
    info = ServerErrorInfo.parse(f"'{text}'")
    assert (info.subject, info.queue, info.sid) == (subject, queue, sid)
