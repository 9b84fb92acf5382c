"""Seeing and steering reconnects: events of each attempt, waits of one's own, other servers."""

from __future__ import annotations

import math
import threading

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until


def test_every_kind_of_event_is_told_in_order_after_its_own_handler():
    seen: list[tuple[str, str]] = []
    closed = threading.Event()

    def own(event):
        seen.append(("own", event.kind))

    def every(event):
        seen.append(("every", event.kind))
        if event.kind == "closed":
            closed.set()

    with NatsServer(jetstream=False) as server:
        nc = jetsync.connect(
            server.url,
            on_connected=own,
            on_reconnect_attempt=own,
            on_reconnected=own,
            on_event=every,
        )
        server.restart()
        wait_until(lambda: ("every", "reconnected") in seen, timeout=30)
        nc.close()
        assert closed.wait(20)
    kinds = [kind for who, kind in seen if who == "every" and kind != "error"]
    attempts = kinds.count("reconnecting")
    assert attempts >= 1
    assert kinds == [
        "connected", "disconnected", *["reconnecting"] * attempts, "reconnected", "closed",
    ]  # fmt: skip
    for kind in ("connected", "reconnecting", "reconnected"):
        assert seen.index(("own", kind)) + 1 == seen.index(("every", kind))


@pytest.mark.straight
def test_an_attempt_to_come_back_says_its_number_its_wait_and_why():
    told: list[jetsync.Event] = []
    with NatsServer(jetstream=False) as server:
        with jetsync.connect(server.url, on_reconnect_attempt=told.append) as nc:
            server.stop()
            wait_until(lambda: len(told) >= 3, timeout=30)
            server.start()
            wait_until(lambda: nc.is_connected, timeout=30)
        assert [event.attempt for event in told] == list(range(1, len(told) + 1))
        assert all(event.delay is not None and event.delay >= 0 for event in told)
        assert all(event.server == f"127.0.0.1:{server.port}" for event in told)
        assert isinstance(told[2].error, jetsync.ConnectError)
        assert told == sorted(told, key=lambda event: event.time)


def test_a_first_link_that_comes_late_is_connected_too():
    kinds: list[str] = []
    with NatsServer(jetstream=False) as server:
        server.stop()
        with jetsync.connect(
            server.url,
            retry_on_initial_connect=True,
            on_event=lambda event: kinds.append(event.kind),
        ):
            server.start()
            wait_until(lambda: "connected" in kinds, timeout=30)


def test_the_wait_is_what_the_users_rule_says():
    asked: list[jetsync.ReconnectAttempt] = []
    waits: list[float | None] = []

    def rule(attempt):
        asked.append(attempt)
        return 0.001 * attempt.number

    with (
        NatsServer(jetstream=False) as server,
        jetsync.connect(
            server.url,
            reconnect_delay=rule,
            on_reconnect_attempt=lambda event: waits.append(event.delay),
        ) as nc,
    ):
        assert asked == []  # the first link is waited for, not delayed
        server.stop()
        wait_until(lambda: len(waits) >= 5, timeout=30)
        server.start()
        wait_until(lambda: nc.is_connected, timeout=30)
        wait_until(lambda: len(waits) == len(asked), timeout=10)
    assert waits == [0.001 * number for number in range(1, len(waits) + 1)]
    assert [attempt.number for attempt in asked] == list(range(1, len(asked) + 1))
    assert asked[3].pass_number >= asked[0].pass_number
    assert asked[2].error is not None
    assert {attempt.server for attempt in asked} == {server.url}


@pytest.mark.parametrize("answer", [-1.0, math.nan, "soon", ValueError("broken")])
def test_a_rule_that_fails_is_told_and_the_default_counts(answer):
    errors: list[BaseException | None] = []

    def rule(attempt):
        if isinstance(answer, Exception):
            raise answer
        return answer

    with (
        NatsServer(jetstream=False) as server,
        jetsync.connect(
            server.url, reconnect_delay=rule, on_error=lambda event: errors.append(event.error)
        ) as nc,
    ):
        server.restart()
        wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected, timeout=30)
        wait_until(lambda: errors, timeout=10)
    assert isinstance(errors[0], (jetsync.ConfigError, ValueError))


@pytest.mark.straight
def test_servers_are_shown_and_replaced_under_a_living_link():
    with NatsServer(jetstream=False) as first, NatsServer(jetstream=False) as second:
        with NatsServer(jetstream=False) as gone:
            dead = gone.url
        with jetsync.connect([dead, first.url], randomize_servers=False) as nc:
            states = {state.url: state for state in nc.servers}
            here = states[first.url]
            assert (here.is_current, here.discovered, here.attempts) == (True, False, 0)
            assert here.last_connected_at is not None
            other = states[dead]
            assert isinstance(other.last_error, jetsync.ConnectError)
            assert (other.is_current, other.last_connected_at) == (False, None)

            nc.set_servers([second.url])
            new, left = nc.servers
            assert (new.url, new.is_current) == (second.url, False)
            assert (left.url, left.is_current) == (nc.connected_url, True)
            assert nc.connected_url == first.url
            first.stop()
            wait_until(lambda: nc.is_connected and nc.connected_url == second.url, timeout=30)
            (now,) = nc.servers
            assert (now.url, now.is_current) == (second.url, True)
            with pytest.raises(jetsync.ConfigError):
                nc.set_servers("http://x")
            with pytest.raises(jetsync.ConfigError):
                nc.set_servers([])


@pytest.mark.straight
def test_new_servers_need_no_file_that_the_options_name(certificates, tmp_path):
    """What a certificate file says now is of no concern to the addresses."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(certificates.ca.read_bytes())
    with NatsServer(jetstream=False, config=certificates.server_config()) as server:
        url = f"tls://localhost:{server.port}"
        with jetsync.connect(url, tls=jetsync.TLSConfig(ca_file=ca)) as nc:
            ca.unlink()
            nc.set_servers([url, "tls://localhost:1"])
            assert len(nc.servers) == 2
    with NatsServer(jetstream=False) as server, jetsync.connect(server.url, tls=False) as nc:
        with pytest.raises(jetsync.ConfigError, match="tls=False contradicts"):
            nc.set_servers("tls://localhost:4222")
        assert [state.url for state in nc.servers] == [server.url]
