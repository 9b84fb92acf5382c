"""ServerPool: which server next and how long to wait, with no sockets and no sleeping."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from jetsync.errors import ConfigError
from jetsync.protocol.serverpool import (
    GROWTH,
    STABLE_AFTER,
    Attempt,
    ServerPool,
)
from jetsync.protocol.url import parse_server, parse_servers
from tests.protocol.pools import Clock, ask, connect, fail, hosts, make


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
    assert [state.url for state in pool.states() if state.discovered] == ["nats://b:4222"]
