"""ServerPool: which server next and how long to wait, with no sockets and no sleeping."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jetsync.errors import ConfigError
from jetsync.protocol.serverpool import (
    GROWTH,
    MOST_DISCOVERED,
    STABLE_AFTER,
    Attempt,
    ServerPool,
)
from jetsync.protocol.url import ServerURL, parse_server, parse_servers


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make(servers: str = "a,b,c", clock: Clock | None = None, **options: Any) -> ServerPool:
    options.setdefault("randomize", False)
    options.setdefault("rng", random.Random(7))
    return ServerPool(parse_servers(servers), clock=clock or Clock(), **options)


def ask(pool: ServerPool) -> Attempt:
    attempt = pool.next()
    assert attempt is not None
    return attempt


def fail(pool: ServerPool, times: int) -> list[Attempt]:
    attempts = []
    for _ in range(times):
        attempt = ask(pool)
        attempts.append(attempt)
        pool.failed(attempt.server)
    return attempts


def connect(pool: ServerPool, clock: Clock, lived: float = 60.0) -> ServerURL:
    """One link that was good for ``lived`` seconds and is now lost."""
    server = ask(pool).server
    pool.succeeded(server)
    clock.now += lived
    return server


def hosts(attempts: list[Attempt]) -> list[str]:
    return [attempt.server.host for attempt in attempts]


def test_the_first_pass_tries_every_server_at_once_in_order() -> None:
    attempts = fail(make(), 3)
    assert hosts(attempts) == ["a", "b", "c"]
    assert [attempt.delay for attempt in attempts] == [0.0, 0.0, 0.0]
    assert [attempt.round for attempt in attempts] == [0, 0, 0]


def test_each_further_pass_waits_once_and_longer() -> None:
    attempts = fail(make(reconnect_jitter=0, reconnect_wait=0.1, max_wait=1.0), 3 * 9)
    assert hosts(attempts) == ["a", "b", "c"] * 9
    for number in range(9):
        first, *others = attempts[3 * number : 3 * number + 3]
        expected = min(1.0, 0.1 * GROWTH ** (number - 1)) if number else 0.0
        assert first.delay == pytest.approx(expected)
        assert [other.delay for other in others] == [0.0, 0.0]
        assert first.round == number


def test_full_jitter_is_between_nothing_and_the_backoff() -> None:
    delays = [attempt.delay for attempt in fail(make("a", reconnect_wait=0.1), 2000)]
    assert all(0.0 <= delay <= 2.0 for delay in delays)
    assert all(delay <= 0.1 * GROWTH**n for n, delay in enumerate(delays[1:20]))
    late = delays[1000:]
    assert min(late) < 0.1
    assert max(late) > 1.9
    assert sum(late) / len(late) == pytest.approx(1.0, abs=0.1)


def test_clients_do_not_come_back_together() -> None:
    """Without a seed of its own every pool waits differently."""
    pools = [ServerPool(parse_servers("a"), reconnect_wait=1.0) for _ in range(20)]
    delays = {fail(pool, 2)[1].delay for pool in pools}
    assert len(delays) == 20


def test_jitter_in_seconds_is_added_to_the_backoff() -> None:
    pool = make("a", reconnect_wait=0.5, max_wait=0.5, reconnect_jitter=timedelta(seconds=0.25))
    delays = [attempt.delay for attempt in fail(pool, 500)][1:]
    assert all(0.5 <= delay <= 0.75 for delay in delays)
    assert max(delays) - min(delays) > 0.2


def test_a_wait_above_the_cap_is_its_own_cap() -> None:
    delays = [a.delay for a in fail(make("a", reconnect_wait=5, reconnect_jitter=0), 6)]
    assert delays == [0.0, 5.0, 5.0, 5.0, 5.0, 5.0]


def test_thousands_of_passes_do_not_overflow() -> None:
    assert fail(make("a", reconnect_jitter=0), 5000)[-1].delay == 2.0


def test_a_server_restart_of_a_fifth_of_a_second_is_met_again_soon() -> None:
    """With the defaults: 95 of 100 clients are back within 0.5 s, all within 1.5 s."""
    rng = random.Random(1)
    late = []
    for _ in range(500):
        clock = Clock()
        pool = make("a", clock, rng=rng)
        connect(pool, clock)
        elapsed = 0.0
        while (elapsed := elapsed + ask(pool).delay) < 0.25:
            pool.failed(pool.servers[0])
        late.append(elapsed - 0.25)
    late.sort()
    assert late[475] < 0.5
    assert late[-1] < 1.5


def test_a_reconnect_begins_at_once_with_the_next_server() -> None:
    clock = Clock()
    pool = make(clock=clock)
    assert connect(pool, clock).host == "a"
    attempts = fail(pool, 4)
    assert hosts(attempts) == ["b", "c", "a", "b"]
    assert [attempt.delay for attempt in attempts[:3]] == [0.0, 0.0, 0.0]
    assert attempts[3].delay > 0.0


def test_success_alone_sets_the_backoff_back() -> None:
    clock = Clock()
    pool = make("a", clock, reconnect_jitter=0)
    assert fail(pool, 5)[-1].delay > 0
    clock.now += 3600
    assert ask(pool).delay > 0  # neither time nor asking does
    connect(pool, clock)
    assert ask(pool).delay == 0.0


def test_a_server_that_accepts_and_breaks_at_once_is_backed_off_from() -> None:
    clock = Clock()
    pool = make("a", clock, reconnect_jitter=0, reconnect_wait=0.1)
    delays = []
    for _ in range(6):
        attempt = ask(pool)
        delays.append(attempt.delay)
        pool.succeeded(attempt.server)
        clock.now += STABLE_AFTER / 2
    assert delays == pytest.approx([0.0] + [0.1 * GROWTH**n for n in range(5)])
    connect(pool, clock, lived=STABLE_AFTER)
    assert ask(pool).delay == 0.0


def test_attempts_after_a_short_link_wait_longer_still() -> None:
    clock = Clock()
    pool = make("a", clock, reconnect_jitter=0, reconnect_wait=0.1)
    connect(pool, clock, lived=STABLE_AFTER / 2)
    delays = [attempt.delay for attempt in fail(pool, 3)]
    assert delays == pytest.approx([0.1, 0.1 * GROWTH, 0.1 * GROWTH**2])


def test_telling_of_a_lost_link_is_not_an_attempt() -> None:
    clock = Clock()
    pool = make("a,b", clock, max_reconnects=1)
    lost = connect(pool, clock)
    pool.failed(lost)
    assert hosts(fail(pool, 2)) == ["b", "a"]
    assert pool.next() is None


@pytest.mark.parametrize(("limit", "tries"), [(0, 1), (1, 2), (3, 4)])
def test_the_first_connect_counts_apart_from_max_reconnects(limit: int, tries: int) -> None:
    pool = make("a,b", max_reconnects=limit)
    assert Counter(hosts(fail(pool, 2 * tries))) == {"a": tries, "b": tries}
    assert pool.next() is None
    assert pool.next() is None


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_max_reconnects_is_per_server_and_per_reconnect(limit: int) -> None:
    clock = Clock()
    pool = make("a,b", clock, max_reconnects=limit)
    connect(pool, clock)
    assert Counter(hosts(fail(pool, 2 * limit))) == ({"a": limit, "b": limit} if limit else {})
    assert pool.next() is None


def test_a_server_left_out_is_back_after_a_success() -> None:
    clock = Clock()
    pool = make("a,b", clock, max_reconnects=2)
    connect(pool, clock)
    fail(pool, 3)
    connect(pool, clock)
    assert Counter(hosts(fail(pool, 4))) == {"a": 2, "b": 2}


def test_for_ever_means_for_ever() -> None:
    assert len(fail(make("a,b", max_reconnects=-1), 1000)) == 1000


def test_randomize_shuffles_and_the_generator_decides() -> None:
    servers = ",".join(f"h{n}" for n in range(10))
    orders = [
        tuple(hosts(fail(make(servers, randomize=True, rng=random.Random(seed)), 10)))
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    assert hosts(fail(make(servers), 10)) == [f"h{n}" for n in range(10)]


def test_the_same_server_twice_is_one() -> None:
    assert len(make("a,a,nats://a:4222,b").servers) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"reconnect_wait": -1},
        {"reconnect_wait": float("inf")},
        {"reconnect_wait": float("nan")},
        {"reconnect_wait": "1"},
        {"reconnect_jitter": -0.1},
        {"max_wait": float("inf")},
        {"max_reconnects": 1.5},
        {"max_reconnects": True},
        {"max_reconnects": None},
    ],
)
def test_unusable_options_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        make(**wrong)


def test_no_servers_are_refused() -> None:
    with pytest.raises(ConfigError, match="servers"):
        ServerPool([])


# -- discovered servers -------------------------------------------------------------------------


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
    ],
)
def test_gossip_never_downgrades_tls(current: str, tls: bool, scheme: str) -> None:
    pool = make(current)
    (server,) = pool.update_discovered(["b:1"], current=pool.servers[0], tls=tls)
    assert server.scheme == scheme


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


# -- lame duck ----------------------------------------------------------------------------------


def test_lame_duck_moves_to_another_server_if_there_is_one() -> None:
    clock = Clock()
    pool = make(clock=clock)
    current = connect(pool, clock)
    assert pool.prefer_other(current)
    attempt = ask(pool)
    assert attempt.server != current
    assert attempt.delay == 0.0
    assert hosts(fail(pool, 3))[-1] == current.host


def test_lame_duck_alone_stays() -> None:
    clock = Clock()
    pool = make("a", clock)
    current = connect(pool, clock)
    assert not pool.prefer_other(current)
    assert ask(pool).server == current


def test_an_attempt_pickles() -> None:
    attempt = Attempt(server=parse_server("u:p@a"), delay=0.5, round=2)
    assert pickle.loads(pickle.dumps(attempt)) == attempt


# -- any history --------------------------------------------------------------------------------

ADDRESSES = st.lists(st.sampled_from([f"h{n}:1" for n in range(6)]), max_size=6)


class AnyHistory(RuleBasedStateMachine):
    """Whatever happens in whatever order, the promises of the pool hold."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.pool = make("a,b", self.clock, randomize=True, max_reconnects=3)
        self.user = set(self.pool.servers)
        self.current: ServerURL | None = None
        self.tried: Counter[ServerURL] = Counter()
        self.allowed = 4

    def attempt(self) -> Attempt | None:
        attempt = self.pool.next()
        if attempt is None:
            known = self.pool.servers
            assert all(self.tried[server] == self.allowed for server in known)
        else:
            assert attempt.server in self.pool.servers
            assert 0.0 <= attempt.delay <= 2.0
            assert attempt.round == self.tried[attempt.server] < self.allowed
            assert attempt.round == min(self.tried[server] for server in self.pool.servers)
        return attempt

    @precondition(lambda self: self.current is None)
    @rule()
    def an_attempt_fails(self) -> None:
        attempt = self.attempt()
        if attempt is not None:
            self.pool.failed(attempt.server)
            self.tried[attempt.server] += 1

    @precondition(lambda self: self.current is None)
    @rule()
    def an_attempt_succeeds(self) -> None:
        attempt = self.attempt()
        if attempt is not None:
            self.pool.succeeded(attempt.server)
            self.current = attempt.server

    @precondition(lambda self: self.current is not None)
    @rule(lived=st.floats(0, 10))
    def the_link_breaks(self, lived: float) -> None:
        self.clock.now += lived
        lost, self.current = self.current, None
        self.tried.clear()
        self.allowed = 3
        attempt = self.attempt()
        assert attempt is not None
        assert attempt.server != lost
        if lived >= STABLE_AFTER:
            assert attempt.delay == 0.0

    @precondition(lambda self: self.current is not None)
    @rule(urls=ADDRESSES)
    def an_info_comes(self, urls: list[str]) -> None:
        assert self.current is not None
        before = set(self.pool.servers)
        new = self.pool.update_discovered(urls, current=self.current)
        assert set(new) == set(self.pool.servers) - before
        if urls:
            assert {s.netloc for s in self.pool.discovered} - {self.current.netloc} <= set(urls)

    @precondition(lambda self: self.current is not None)
    @rule()
    def lame_duck(self) -> None:
        assert self.current is not None
        assert self.pool.prefer_other(self.current)

    @invariant()
    def the_users_servers_stay_and_none_is_there_twice(self) -> None:
        servers = self.pool.servers
        assert self.user <= set(servers)
        assert len({server.address for server in servers}) == len(servers)
        assert self.current is None or self.current in servers


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)


@settings(deadline=None)
@given(st.lists(st.text(max_size=20), max_size=5))
def test_no_gossip_raises(urls: list[str]) -> None:
    pool = make("a")
    pool.update_discovered(urls, current=pool.servers[0])
    assert parse_server("a") in pool.servers


def test_a_new_server_is_waited_for_as_if_the_outage_had_just_begun() -> None:
    pool = make("a", max_reconnects=20)
    fail(pool, 15)
    pool.replace_own(parse_servers("b"))
    delays = [attempt.delay for attempt in fail(pool, 10)]
    assert delays[0] == 0
    assert all(delay > 0 for delay in delays[1:])


def test_looking_at_the_servers_changes_none() -> None:
    pool = make("a")
    pool.update_discovered(["b:4222"], current=parse_server("a"))
    pool.replace_own(parse_servers("a,b"))
    assert [state.discovered for state in pool.states()] == [False, False]
    pool.replace_own(parse_servers("a"))
    assert [str(state.url.host) for state in pool.states() if state.discovered] == ["b"]
