"""What is said to begin a WebSocket, byte by byte, and what is made of any answer."""

from __future__ import annotations

import random

import pytest

from jetsync.errors import ConfigError, ConnectError
from jetsync.protocol.upgrade import ask_websocket, check_headers, check_path
from tests.harness.websockets import answer

DEFLATE = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"


def talk(make, cuts=(), *, deflate=False, headers=None):
    """Play a server that answers what ``make(request)`` returns, cut there; returns the request,
    whether there is compression, and what came behind."""
    steps = ask_websocket("host:80", "/a?b=c", headers or {}, deflate=deflate)
    request = next(steps)
    data = make(request)
    try:
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            assert steps.send(data[start:end]) == b""
    except StopIteration as end:
        return request, *end.value
    raise AssertionError("the server was asked for more")


def test_the_request_is_that_of_rfc_6455():
    request, agreed, behind = talk(lambda r: answer(r) + b"\x82\x04INFO", headers={"X-Key": " v "})
    lines = request.decode().split("\r\n")
    key = lines.pop(4)
    assert key.startswith("Sec-WebSocket-Key: ")
    assert len(key) == 19 + 24
    assert lines == [
        "GET /a?b=c HTTP/1.1",
        "Host: host:80",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "X-Key: v",
        "",
        "",
    ]
    assert not agreed
    assert behind == b"\x82\x04INFO"
    assert talk(answer)[0] != request, "each request has a key of its own"


def test_a_host_that_is_not_ascii_goes_in_its_ascii_form():
    request = next(ask_websocket("例え.jp:80", "/", {}, deflate=False))
    assert b"\r\nHost: xn--r8jz45g.jp:80\r\n" in request
    with pytest.raises(ConnectError, match="no name of a host"):
        next(ask_websocket("例" * 60 + ".jp:80", "/", {}, deflate=False))


def test_an_answer_may_come_in_any_pieces():
    rng = random.Random(1)
    length = len(answer(b"Sec-WebSocket-Key: " + b"x" * 24 + b"\r\n"))
    for _ in range(50):
        cuts = sorted(rng.randrange(length) for _ in range(rng.randrange(6)))
        assert talk(answer, cuts)[1:] == (False, b"")
    assert talk(answer, range(1, length))[1:] == (False, b"")


@pytest.mark.parametrize(
    ("more", "agreed"),
    [
        ([], False),
        ([f"Sec-WebSocket-Extensions: {DEFLATE}"], True),
        (
            [
                f"sec-websocket-extensions:  {DEFLATE.replace('; ', ' ;')};"
                " server_max_window_bits=15 "
            ],
            True,
        ),
    ],
)
def test_compression_is_what_the_server_says_when_it_was_offered(more, agreed):
    lines = [line.encode() for line in more]
    request, got, _ = talk(lambda r: answer(r, *lines), deflate=True)
    assert got is agreed
    assert f"Sec-WebSocket-Extensions: {DEFLATE}\r\n".encode() in request
    if agreed:
        with pytest.raises(ConnectError, match="not offered"):
            talk(lambda r: answer(r, *lines), deflate=False)


@pytest.mark.parametrize(
    "extension",
    [
        "permessage-deflate",
        "permessage-deflate; server_no_context_takeover",
        f"{DEFLATE}; client_max_window_bits=9",
        f"{DEFLATE}, {DEFLATE}",
        "x-other",
    ],
)
def test_an_extension_that_was_not_offered_is_refused(extension):
    line = f"Sec-WebSocket-Extensions: {extension}".encode()
    with pytest.raises(ConnectError, match="not offered"):
        talk(lambda r: answer(r, line), deflate=True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda a: a.replace(b"Upgrade: websocket", b"Upgrade: h2c"), "Upgrade: websocket"),
        (lambda a: a.replace(b"Connection: Upgrade", b"Connection: close"), "Connection: Upgrade"),
        (lambda a: a.replace(b"Accept: ", b"Accept: x"), "Accept"),
        (lambda a: a.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Accept: x\r\n\r\n"), "Accept"),
        (lambda a: a.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Protocol: x\r\n\r\n"), "subprotocol"),
        (lambda a: a.replace(b"\r\n\r\n", b"\r\nno colon\r\n\r\n"), "broken headers"),
        (lambda a: a.replace(b"\r\n\r\n", b"\r\n folded: x\r\n\r\n"), "broken headers"),
        (lambda a: a.replace(b"\r\n\r\n", b"\r\na: \0\r\n\r\n"), "broken headers"),
        (lambda a: a.replace(b"101 ", b"1010 "), "does not speak HTTP"),
        (lambda a: a.replace(b"101 Switching Protocols", b"403 No\x1b[2J"), r"403 No\\x1b\[2J$"),
        (lambda a: a.replace(b"101 Switching", b"301 Moved"), "301 Moved"),
        (lambda a: a.replace(b"101 Switching", b"200 OK"), "200 OK"),
        (lambda a: a.replace(b"101 Switching", b"100 Continue"), "100 Continue"),
        (lambda _: b"HTTP/1.0 101 x\r\n\r\n", "does not speak HTTP"),
        (lambda _: b'INFO {"server_id":"x"}\r\n', "use nats://"),
        (lambda _: b"\x15\x03\x01\x00\x02\x02\x46", "does not speak HTTP"),
    ],
)
def test_any_other_answer_is_an_error_with_its_reason(change, why):
    with pytest.raises(ConnectError, match=why):
        talk(lambda r: change(answer(r)))


def test_an_endless_answer_is_not_read_for_ever():
    steps = ask_websocket("host:80", "/", {}, deflate=False)
    next(steps)
    steps.send(b"HTTP/1.1 101 x\r\n")
    with pytest.raises(ConnectError, match="without an end"):
        for _ in range(100):
            steps.send(b"a: b\r\n" * 1000)


@pytest.mark.parametrize("path", ["", "nats", "/a b", "/ä", "/a\r\nX: y", "/#x", 5])
def test_a_path_that_would_break_the_request_is_refused(path):
    with pytest.raises(ConfigError, match="ws_path"):
        check_path(path)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"connection": "x"},
        {"Sec-WebSocket-Key": "x"},
        {"a b": "x"},
        {"": "x"},
        {"a": "secret\r\nX: y"},
        {"a": "secret\0"},
        {"a": "secret\u20ac"},
        {"a": 5},
        ["a"],
    ],
)
def test_headers_that_would_break_the_request_are_refused_without_their_values(headers):
    with pytest.raises(ConfigError, match="ws_headers") as caught:
        check_headers(headers)
    assert "secret" not in str(caught.value)
