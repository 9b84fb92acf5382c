"""What is said to a proxy, byte by byte, and what is made of any answer."""

from __future__ import annotations

import random

import pytest

from jetsync.errors import ConfigError, ConnectError
from jetsync.protocol.proxy import ProxyURL, ask_proxy, proxy_from_environment


def talk(url, answers, host="server.example", port=4222):
    """Play a proxy that sends these pieces; return what was sent to it and what came behind."""
    sent = []
    steps = ask_proxy(ProxyURL.parse(url), host, port)
    try:
        sent.append(next(steps))
        for answer in answers:
            sent.append(steps.send(answer))
    except StopIteration as end:
        return [words for words in sent if words], end.value
    raise AssertionError("the proxy was asked for more")


def pieces(data):
    """The same bytes, cut everywhere."""
    return [data[n : n + 1] for n in range(len(data))]


OK = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n"
CONNECT = b"CONNECT server.example:4222 HTTP/1.1\r\nHost: server.example:4222\r\n"


@pytest.mark.parametrize("answers", [[OK + b"INFO {}"], [*pieces(OK)[:-1], b"\nINFO {}"]])
def test_http_connect(answers):
    assert talk("http://p", answers) == ([CONNECT + b"\r\n"], b"INFO {}")


def test_http_with_a_user_and_an_address():
    sent, _ = talk("https://me:pw%3A@p:1", [OK], host="::1")
    assert sent == [
        b"CONNECT [::1]:4222 HTTP/1.1\r\nHost: [::1]:4222\r\n"
        b"Proxy-Authorization: Basic bWU6cHc6\r\n\r\n"
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://other\r\n\r\n",
        b"HTTP/1.1 2000 x\r\n\r\n",
        b"SSH-2.0\r\n\r\n",
        b"\r\n\r\n",
        b"x" * 70_000,
    ],
)
def test_http_that_does_not_connect(answer):
    with pytest.raises(ConnectError, match="proxy p:80"):
        talk("http://p", [answer, b""])


GRANTED = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("server.example", b"\x03\x0eserver.example"),
        ("10.0.0.7", b"\x01\x0a\x00\x00\x07"),
        ("::1", b"\x04" + bytes(15) + b"\x01"),
    ],
)
def test_socks(host, address):
    asked = b"\x05\x01\x00" + address + (4222).to_bytes(2, "big")
    answers = [b"\x05\x00", GRANTED + b"INFO"]
    assert talk("socks5://p", answers, host) == ([b"\x05\x01\x00", asked], b"INFO")
    sent, behind = talk("socks5h://p", pieces(b"\x05\x00" + GRANTED), host)
    assert (sent, behind) == ([b"\x05\x01\x00", asked], b"")


def test_socks_with_a_user():
    sent, _ = talk("socks5://me:pw@p", [b"\x05\x02", b"\x01\x00", GRANTED])
    assert sent[:2] == [b"\x05\x02\x00\x02", b"\x01\x02me\x02pw"]


@pytest.mark.parametrize("kind", [b"\x03\x02ab", b"\x04" + bytes(16)])
def test_socks_answers_with_any_kind_of_address(kind):
    answers = [b"\x05\x00", b"\x05\x00\x00" + kind + b"\x00\x01INFO"]
    assert talk("socks5://p", answers)[1] == b"INFO"


@pytest.mark.parametrize(
    "answers",
    [
        [b"\x04\x00"],
        [b"HT"],
        [b"\x05\xff"],
        [b"\x05\x02"],
        [b"\x05\x01"],
        [b"\x05\x00", b"\x05\x05\x00\x01" + bytes(6)],
        [b"\x05\x00", b"\x05\x63\x00\x01" + bytes(6)],
        [b"\x05\x00", b"\x04\x00\x00\x01" + bytes(6)],
        [b"\x05\x00", b"\x05\x00\x00\x07" + bytes(6)],
    ],
)
def test_socks_that_does_not_connect(answers):
    with pytest.raises(ConnectError, match="proxy p:1080"):
        talk("socks5://p", answers)


def test_any_bytes_are_an_answer_or_a_connect_error():
    rng = random.Random(1)
    for _ in range(3_000):
        url = rng.choice(["http://p", "socks5://p", "socks5://me:pw@p"])
        start = rng.choice([b"", b"\x05\x00", b"\x05\x02\x01\x00", b"HTTP/1.1 200 x\r\n"])
        steps = ask_proxy(ProxyURL.parse(url), "h", 1)
        next(steps)
        try:
            steps.send(start + rng.randbytes(rng.randrange(40)))
            for _ in range(5):
                steps.send(rng.randbytes(rng.randrange(1, 40)))
        except (StopIteration, ConnectError):
            pass


@pytest.mark.parametrize(
    ("exceptions", "host", "expected"),
    [
        ("", "a.example", True),
        ("*", "a.example", False),
        ("example", "a.example", False),
        (".EXAMPLE", "A.example", False),
        ("xample", "a.example", True),
        ("10.0.0.0/8,b", "10.1.2.3", False),
        ("10.0.0.0/8", "11.1.2.3", True),
        ("::1", "::1", False),
        ("not a network", "10.0.0.1", True),
    ],
)
def test_what_no_proxy_excepts(exceptions, host, expected):
    found = proxy_from_environment({"all_proxy": "http://p", "NO_PROXY": exceptions}, host)
    assert (found is not None) is expected


def test_no_secret_shows():
    proxy = ProxyURL.parse("socks5://me:secret@p")
    assert "secret" not in f"{proxy} {proxy!r}"
    with pytest.raises(ConfigError) as caught:
        ProxyURL.parse("ftp://me:secret@p")
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match="255"):
        ProxyURL.parse(f"socks5://me:{'x' * 256}@p")
