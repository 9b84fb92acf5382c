"""ServerPool: properties that hold after any history of calls."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jetsync.protocol.serverpool import (
    STABLE_AFTER,
    Attempt,
)
from jetsync.protocol.url import ServerURL, parse_server
from tests.protocol.pools import Clock, make

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
