"""ServerPool: servers that a server has told of."""

from __future__ import annotations

import random

import pytest

from jetsync.protocol.serverpool import (
    MOST_DISCOVERED,
)
from tests.protocol.pools import Clock, ask, fail, hosts, make


def test_discovered_servers_join_once() -> None:
    pool = make("a")
    a = pool.servers[0]
    new = pool.update_discovered(["a:4222", "b:4222", "[::1]:7"], current=a)
    assert [server.netloc for server in new] == ["b:4222", "[::1]:7"]
    assert pool.update_discovered(["a:4222", "b:4222", "[::1]:7"], current=a) == ()
    assert hosts(fail(pool, 3)) == ["a", "b", "::1"]
    assert pool.discovered == new


def test_discovered_servers_are_forgotten_when_no_longer_told_but_not_the_users() -> None:
    pool = make("a,b")
    a = pool.servers[0]
    pool.update_discovered(["c:1", "d:1"], current=a)
    pool.update_discovered(["d:1", "e:1"], current=a)
    assert [server.host for server in pool.servers] == ["a", "b", "d", "e"]


def test_a_discovered_server_in_use_is_kept_until_it_is_left() -> None:
    clock = Clock()
    pool = make("a", clock)
    a = pool.servers[0]
    (b,) = pool.update_discovered(["b:1"], current=a)
    pool.update_discovered(["c:1"], current=b)
    assert b in pool.servers
    pool.update_discovered(["c:1"], current=a)
    assert b not in pool.servers
    pool.failed(b)  # an outcome for a server that is gone changes nothing
    pool.succeeded(b)
    clock.now += 60
    assert hosts(fail(pool, 2)) == ["a", "c"]


LOCAL = [
    "localhost:1",
    "a.localhost:1",
    "127.0.0.1:1",
    "127.8.9.10:1",
    "[::1]:1",
    "169.254.169.254:1",
    "[fe80::1]:1",
    "0.0.0.0:1",
    "[::]:1",
]


def test_addresses_of_this_machine_are_believed_only_from_a_server_on_it() -> None:
    """Else a distant server could turn the client against what listens here for this machine."""
    pool = make("a")
    a = pool.servers[0]
    new = pool.update_discovered([*LOCAL, "10.0.0.7:1", "b:1"], current=a, near=False)
    assert [server.host for server in new] == ["10.0.0.7", "b"]
    assert len(pool.update_discovered(LOCAL, current=a, near=True)) == len(LOCAL)


def test_at_most_so_many_discovered_servers_are_kept() -> None:
    pool = make("a,b")
    told = [f"h{number}:1" for number in range(40_000)]
    assert len(pool.update_discovered(told, current=pool.servers[0])) == MOST_DISCOVERED
    assert pool.update_discovered(told, current=pool.servers[0]) == ()
    assert hosts(fail(pool, 5))[:2] == ["a", "b"]


def test_an_info_without_urls_says_nothing() -> None:
    pool = make("a")
    a = pool.servers[0]
    pool.update_discovered(["b:1"], current=a)
    assert pool.update_discovered([], current=a) == ()
    assert pool.update_discovered(["???", ""], current=a) == ()
    assert [server.host for server in pool.servers] == ["a", "b"]


@pytest.mark.parametrize(
    "bad", ["", ":", "h:0", "h:x", "a b:1", "::1:4222", "nats://h:1", "u:p@h:1", "h\r\n:1"]
)
def test_what_cannot_be_read_is_left_out(bad: str) -> None:
    pool = make("a")
    new = pool.update_discovered([bad, "good:1"], current=pool.servers[0])
    assert [server.netloc for server in new] == ["good:1"]


def test_ignoring_discovered_servers() -> None:
    pool = make("a", ignore_discovered=True)
    assert pool.update_discovered(["b:1"], current=pool.servers[0]) == ()
    assert len(pool.servers) == 1


@pytest.mark.parametrize(
    ("current", "told", "name"),
    [
        ("tls://n1.example.com", "10.0.0.2:4222", "n1.example.com"),
        ("tls://n1.example.com", "[2001:db8::2]:4222", "n1.example.com"),
        ("tls://n1.example.com", "n2.example.com:4222", "n2.example.com"),
        ("tls://10.0.0.1", "10.0.0.2:4222", "10.0.0.2"),
        ("tls://10.0.0.1", "n2.example.com:4222", "n2.example.com"),
    ],
)
def test_the_certificate_of_a_discovered_address_shows_the_name_the_user_gave(
    current: str, told: str, name: str
) -> None:
    pool = make(current)
    (server,) = pool.update_discovered([told], current=pool.servers[0])
    assert server.hostname == name


def test_the_name_is_handed_on_from_one_discovered_address_to_the_next() -> None:
    pool = make("tls://n1.example.com")
    (second,) = pool.update_discovered(["10.0.0.2:1"], current=pool.servers[0])
    third = pool.update_discovered(["10.0.0.2:1", "10.0.0.3:1"], current=second)[0]
    assert third.hostname == "n1.example.com"


@pytest.mark.parametrize(
    ("current", "tls", "scheme"),
    [
        ("nats://a", False, "nats"),
        ("nats://a", True, "tls"),
        ("tls://a", False, "tls"),
        ("tls://a", True, "tls"),
        ("ws://a/path", False, "ws"),
        ("ws://a/path", True, "wss"),
        ("wss://a/path", True, "wss"),
        ("wss://a/path", False, "wss"),
    ],
)
def test_gossip_never_downgrades_tls(current: str, tls: bool, scheme: str) -> None:
    pool = make(current)
    (server,) = pool.update_discovered(["b:1"], current=pool.servers[0], tls=tls)
    assert server.scheme == scheme
    assert server.path == pool.servers[0].path == ("/path" if server.is_websocket else "")


@pytest.mark.parametrize("entry", ["bob:s3cret@", "s3cret@", ""])
def test_a_discovered_server_is_entered_like_the_one_that_told_of_it(entry: str) -> None:
    pool = make(f"nats://{entry}a")
    (server,) = pool.update_discovered(["b:1"], current=pool.servers[0])
    told_by = pool.servers[0]
    assert (server.user, server.password, server.token) == (
        told_by.user,
        told_by.password,
        told_by.token,
    )
    assert "s3cret" not in repr(server)
    assert "s3cret" not in repr(ask(pool))


def test_new_servers_are_mixed_in_when_the_order_is_random() -> None:
    urls = [f"h{n}:1" for n in range(10)]
    orders = set()
    for seed in range(5):
        pool = make("a", randomize=True, rng=random.Random(seed))
        pool.update_discovered(urls, current=pool.servers[0])
        orders.add(pool.servers)
    assert len(orders) == 5
