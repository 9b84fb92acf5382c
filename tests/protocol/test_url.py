"""Server URLs: what is understood, what is refused, and that no secret is ever shown."""

from __future__ import annotations

import pickle
import string
from dataclasses import FrozenInstanceError
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.errors import ConfigError
from jetsync.protocol.url import ServerURL, parse_server, parse_servers


def url(host: str, port: int = 4222, **more: Any) -> ServerURL:
    return ServerURL(host=host, port=port, **more)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", url("localhost")),
        ("localhost:4333", url("localhost", 4333)),
        ("nats://localhost", url("localhost")),
        ("nats://localhost:4222/", url("localhost")),
        ("NATS://LocalHost:1", url("localhost", 1)),
        ("tls://n1.example.com", url("n1.example.com", scheme="tls")),
        ("nats://n1.example.com.:65535", url("n1.example.com.", 65535)),
        ("nats://under_score-1", url("under_score-1")),
        ("nats://10.0.0.7:4222", url("10.0.0.7")),
        ("nats://[::1]", url("::1")),
        ("[::1]:4333", url("::1", 4333)),
        ("nats://[2001:DB8:0::1]:1", url("2001:db8::1", 1)),
        ("nats://[fe80::1%eth0]", url("fe80::1%eth0")),
        ("nats://[fe80::1%25eth0]:7", url("fe80::1%eth0", 7)),
        ("nats://bücher.example", url("bücher.example")),
        ("nats://me@h", url("h", token="me")),
        ("tok%40en@h:1", url("h", 1, token="tok@en")),
        ("nats://u:p@h", url("h", user="u", password="p")),
        ("nats://u:@h", url("h", user="u", password="")),
        ("nats://u:p:q@h", url("h", user="u", password="p:q")),
        ("nats://u:p@q@h", url("h", user="u", password="p@q")),
        ("nats://a%2Fb:%C3%A9+%25@[::1]:1", url("::1", 1, user="a/b", password="é+%")),
    ],
)
def test_a_good_url_gives_its_parts(text: str, expected: ServerURL) -> None:
    assert parse_server(text) == expected
    assert parse_servers(text) == parse_servers([text]) == [expected]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no host"),
        ("nats://", "no host"),
        (":4222", "no host"),
        ("nats://:4222", "no host"),
        ("nats://u:p@", "no host"),
        ("nats://u:p@:1", "no host"),
        ("nats:// localhost", "space"),
        ("nats://local host", "space"),
        ("nats://localhost\n", "control"),
        ("nats://local\x00host", "control"),
        ("nats://localhost:", "port"),
        ("nats://localhost:0", "port"),
        ("nats://localhost:65536", "port"),
        ("nats://localhost:-1", "port"),
        ("nats://localhost:42a", "port"),
        ("nats://localhost:٤٢", "port"),
        ("nats://[::1]:x", "port"),
        ("nats://[::1", "brackets"),
        ("nats://[::1]4222", "brackets"),
        ("nats://[localhost]", "IPv6"),
        ("nats://[]", "IPv6"),
        ("nats://::1", "brackets"),
        ("nats://::1:4222", "brackets"),
        ("nats://a..b", "host"),
        ("nats://.a", "host"),
        ("nats://a,b", "host"),
        ("nats://a*b", "host"),
        ("nats://" + "a" * 64, "host"),
        ("nats://" + "a." * 130 + "a", "host"),
        ("nats://" + "ü" * 63, "host"),
        ("nats://host/path", "path"),
        ("nats://host?x=1", "keywords"),
        ("nats://host#x", "keywords"),
        ("nats://@host", "front of '@'"),
        ("nats://:p@host", "front of ':'"),
        ("nats://u:100%@host", "%25"),
        ("nats://u:%zz@host", "%25"),
        ("nats://u:%ff@host", "UTF-8"),
        ("nats://u:a/b@host", "percent-encode"),
        ("ws://host/a?b=c", "ws_path"),
        ("ws://host/a#b", "ws_path"),
        ("wss://host/\u00e4", "ws_path"),
        ("ws://", "no host"),
        ("ws:///path", "no host"),
        ("ws://host:0/path", "port"),
        ("http://host", "ws:// or wss://"),
        ("nats+tls://host", "ws:// or wss://"),
        ("://host", "ws:// or wss://"),
    ],
)
def test_a_bad_url_is_refused_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_servers([text])
    assert why in str(caught.value)
    assert "server URL" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_several_urls_come_from_one_string_or_a_sequence() -> None:
    expected = [url("a"), url("b", 1), url("c", scheme="tls")]
    assert parse_servers("a,nats://b:1, tls://c ") == expected
    assert parse_servers(["a", "nats://b:1", "tls://c"]) == expected
    assert parse_servers(("a", "nats://b:1", "tls://c")) == expected
    assert parse_servers(["nats://u:p,q@a"]) == [url("a", user="u", password="p,q")]


@pytest.mark.parametrize("servers", ["", ",", "a,", ",a", "a,,b", [], (), ["a", ""]])
def test_an_empty_place_in_the_list_is_refused(servers: Any) -> None:
    with pytest.raises(ConfigError):
        parse_servers(servers)


@pytest.mark.parametrize("servers", [None, 7, b"a", {"a": 1}, ["a", None], [b"a"], [["a"]]])
def test_what_is_no_text_is_refused(servers: Any) -> None:
    with pytest.raises(ConfigError, match="must"):
        parse_servers(servers)


@pytest.mark.parametrize(
    "servers",
    [
        "nats://bob:s3cret@h:bad",
        "nats://bob:s3cret@",
        "nats://bob:s3cret/x@h",
        "nats://bob:s3cret?x@h",
        "nats://bob:s3,cret@h",
        "nats://bob:s3cret%@h",
        "ftp://bob:s3cret@h",
        "s3cret@h/x",
        ["nats://bob:s3cret@h h"],
        ["nats://bob:s3cret@h", "nope://x"],
    ],
)
def test_no_error_repeats_what_may_be_a_secret(servers: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_servers(servers)
    assert "s3" not in str(caught.value)
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_error_shows_the_url_when_it_holds_no_secret() -> None:
    with pytest.raises(ConfigError, match="'nats://local:host'"):
        parse_servers("nats://local:host")


@pytest.mark.parametrize(
    ("server", "shown"),
    [
        (url("h"), "nats://h:4222"),
        (url("::1", 7, scheme="tls"), "tls://[::1]:7"),
        (url("h", token="s3cret"), "nats://***@h:4222"),
        (url("h", user="bob", password="s3cret"), "nats://bob:***@h:4222"),
        (url("h", user="b@b\n", password="s3cret"), "nats://b%40b%0A:***@h:4222"),
    ],
)
def test_str_and_repr_mask_secrets(server: ServerURL, shown: str) -> None:
    assert str(server) == f"{server}" == shown
    assert shown in repr(server)
    assert "s3cret" not in repr([server])


def test_the_parts_that_dialling_needs() -> None:
    server = url("10.0.0.1", 7, scheme="tls", tls_name="n1.example.com")
    assert server.address == ("10.0.0.1", 7)
    assert server.netloc == "10.0.0.1:7"
    assert server.hostname == "n1.example.com"
    assert server.requires_tls
    assert server.is_ip
    assert "n1.example.com" in repr(server)
    plain = url("h")
    assert plain.hostname == "h"
    assert not plain.requires_tls
    assert not plain.is_ip
    assert url("::1").netloc == "[::1]:4222"
    assert url("::1").address == ("::1", 4222)


def test_it_is_frozen_hashable_and_pickles_with_its_secrets() -> None:
    server = parse_server("tls://bob:s3cret@h:7")
    again = pickle.loads(pickle.dumps(server))
    assert again == server
    assert again.password == "s3cret"
    assert len({server, again}) == 1
    with pytest.raises(FrozenInstanceError):
        server.port = 1  # type: ignore[misc]


TEXT = st.text(min_size=1, max_size=12)
LABEL = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
HOST = st.lists(LABEL, min_size=1, max_size=3).map(".".join) | st.ip_addresses(v=6).map(
    lambda ip: f"[{ip}]"
)


@settings(deadline=None)
@given(st.sampled_from(["nats", "tls"]), HOST, st.integers(1, 65535), TEXT, TEXT)
def test_any_user_and_password_survive_percent_encoding(
    scheme: str, host: str, port: int, user: str, password: str
) -> None:
    entry = f"{quote(user, safe='')}:{quote(password, safe='')}"
    server = parse_server(f"{scheme}://{entry}@{host}:{port}")
    assert (server.user, server.password) == (user, password)
    assert (server.scheme, server.netloc) == (scheme, f"{host}:{port}")
    assert parse_server(f"{quote(user, safe='')}@{host}").token == user


@settings(deadline=None)
@given(st.text(max_size=40) | st.text("nats:/@[]%.,01ab", max_size=40))
def test_any_text_parses_or_is_a_config_error(text: str) -> None:
    try:
        servers = parse_servers(text)
    except ConfigError:
        return
    for server in servers:
        assert 1 <= server.port <= 65535
        assert server.host
        assert parse_server(server.netloc).address == server.address


@pytest.mark.parametrize(
    ("text", "port", "path", "shown"),
    [
        ("ws://host", 80, "", "ws://host:80"),
        ("wss://host/", 443, "", "wss://host:443"),
        ("WS://u:p%40@host:8080/a/b%20c", 8080, "/a/b%20c", "ws://u:***@host:8080/a/b%20c"),
        ("wss://t@[::1]/x:y", 443, "/x:y", "wss://***@[::1]:443/x:y"),
    ],
)
def test_a_websocket_has_ports_of_its_own_and_may_have_a_path(text, port, path, shown):
    (url,) = parse_servers(text)
    assert (url.port, url.path, str(url)) == (port, path, shown)
    assert url.is_websocket
    assert url.requires_tls is text.startswith("wss")


def test_websockets_are_not_mixed_with_other_servers():
    with pytest.raises(ConfigError, match="one kind"):
        parse_servers("ws://a,nats://b")
    assert len(parse_servers("ws://a,wss://b")) == 2
