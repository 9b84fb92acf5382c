"""Subjects and names: what matches, what may be sent, what is refused and why."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.errors import ConfigError
from jetsync.protocol.subjects import (
    check_name,
    check_publish_subject,
    check_queue,
    check_subscribe_subject,
    subject_matches,
)


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a.b", "a.b", True),
        ("a.b", "a", False),
        ("a", "a.b", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.*.c", "a.b.c", True),
        ("a.*.c", "a.b.d", False),
        (">", "a", True),
        (">", "a.b.c", True),
        ("a.>", "a", False),
        ("a.>", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "b.b", False),
        ("*.>", "a.b", True),
        ("*.>", "a", False),
        ("a.*.>", "a.b.c.d", True),
        ("a.*.>", "a.b", False),
        ("a*", "ab", False),
        ("a*", "a*", True),
        ("a>", "a>", True),
        ("A", "a", False),
        (">", "a..b", False),
        ("a..b", "a..b", False),
        ("a.*.b", "a..b", False),
        ("", "", False),
        (">", "", False),
    ],
)
def test_matching_is_that_of_the_server(pattern: str, subject: str, expected: bool) -> None:
    assert subject_matches(pattern, subject) is expected


TOKEN = st.text(alphabet="abcXYZ019_-$é", min_size=1, max_size=3)
SUBJECT = st.lists(TOKEN, min_size=1, max_size=5).map(".".join)


@settings(deadline=None)
@given(SUBJECT, st.data())
def test_a_pattern_made_from_a_subject_matches_it(subject: str, data: st.DataObject) -> None:
    tokens = subject.split(".")
    cut = data.draw(st.integers(0, len(tokens)))
    kept = [data.draw(st.sampled_from([token, "*"])) for token in tokens[:cut]]
    pattern = ".".join([*kept, ">"] if cut < len(tokens) else kept)
    assert subject_matches(pattern, subject)
    assert check_subscribe_subject(pattern) == pattern


SAFE = ["a", "a.b", "$JS.ACK.x", "a*b", "a>b", "é.ü", "a\x80", "a\u2028b", "'\"\\/"]
UNSAFE = [
    "",
    " ",
    "a b",
    "a\tb",
    "a\r\nPUB x 0\r\n\r\n",
    "a\n",
    "\x00",
    "a\x1f",
    "a\x7f",
    "a\ud800",
]
NOT_TEXT: list[Any] = [None, b"a", 7, ["a"]]


@pytest.mark.parametrize("subject", [*SAFE, "a..b", ".", "a.", ".a"])
def test_publish_takes_whatever_frames_and_is_one_subject(subject: str) -> None:
    assert check_publish_subject(subject) == subject


@pytest.mark.parametrize("subject", [*UNSAFE, "*", ">", "a.*", "a.>", "*.b", ">.b", *NOT_TEXT])
def test_publish_refuses_what_breaks_framing_and_wildcards(subject: str) -> None:
    with pytest.raises(ConfigError, match="subject"):
        check_publish_subject(subject)


@pytest.mark.parametrize("subject", [*SAFE, "*", ">", "a.*", "a.>", "*.*.>", "a.*.b"])
def test_subscribe_takes_the_whole_grammar(subject: str) -> None:
    assert check_subscribe_subject(subject) == subject


@pytest.mark.parametrize(
    "subject", [*UNSAFE, ".", "a.", ".a", "a..b", ">.a", "a.>.b", ">.>", *NOT_TEXT]
)
def test_subscribe_refuses_what_the_server_would(subject: str) -> None:
    with pytest.raises(ConfigError, match="subject"):
        check_subscribe_subject(subject)


@pytest.mark.parametrize("queue", [*SAFE, "*", "a.*"])
def test_a_queue_is_any_text_that_frames(queue: str) -> None:
    assert check_queue(queue) == queue


@pytest.mark.parametrize("queue", [*UNSAFE, *NOT_TEXT])
def test_a_queue_that_breaks_framing_is_refused(queue: str) -> None:
    with pytest.raises(ConfigError, match="queue"):
        check_queue(queue)


@pytest.mark.parametrize("name", ["ORDERS", "a-b_c", "é", "x" * 255, "$x", "a:b", "KV_b", '"'])
def test_a_name_the_server_takes_comes_back(name: str) -> None:
    assert check_name("stream", name) == name


@pytest.mark.parametrize("char", list(" .*>/\\\t\r\n\x00\x7f"))
@pytest.mark.parametrize("kind", ["stream", "consumer"])
def test_a_name_error_says_which_name_and_which_character(kind: str, char: str) -> None:
    name = f"OR{char}DERS"
    with pytest.raises(ConfigError) as caught:
        check_name(kind, name)
    text = str(caught.value)
    assert text.startswith(f"{kind} name")
    assert repr(name) in text
    assert f"{char!r} (at position 2)" in text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128, *NOT_TEXT])
def test_a_name_that_is_empty_too_long_or_no_text_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="stream name"):
        check_name("stream", name)


@pytest.mark.parametrize("check", [check_publish_subject, check_subscribe_subject, check_queue])
def test_an_error_about_a_huge_text_stays_short(check: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        check("x" * 1_000_000 + " ")
    assert len(str(caught.value)) < 200


@settings(deadline=None)
@given(st.text(max_size=30))
def test_what_passes_a_check_never_breaks_framing(text: str) -> None:
    for check in (check_publish_subject, check_subscribe_subject, check_queue):
        try:
            check(text)
        except ConfigError:
            continue
        raw = text.encode("utf-8")
        assert raw
        assert all(byte > 0x20 and byte != 0x7F for byte in raw)
