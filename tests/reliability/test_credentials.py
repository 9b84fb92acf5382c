"""Credentials that end or change while a connection lives: an event, and on with the new ones."""

from __future__ import annotations

import threading
import time

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.accounts import Accounts
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.reliability.links import await_reconnect


def account_of(password):
    return f"authorization {{ user: joe, password: {password} }}"


def test_a_jwt_that_expires_is_replaced_by_a_fresh_one():
    """The server says so and hangs up; the next attempt asks the callable again."""
    accounts = Accounts()
    given: list[float] = []

    def jwt():
        # The server counts in whole seconds, and wants a moment of validity to let us in.
        given.append(time.monotonic())
        return accounts.user_jwt(expires=time.time() + 3 if len(given) == 1 else 0)

    told: list[BaseException | None] = []
    with (
        NatsServer(config=accounts.config, jetstream=False) as server,
        jetsync.connect(
            server.url,
            jwt=jwt,
            nkey_seed=lambda: accounts.user.seed,
            on_error=lambda event: told.append(event.error),
        ) as nc,
    ):
        sub = nc.subscribe("a")
        nc.publish("a", b"before")
        assert sub.next(timeout=10).data == b"before"
        wait_until(lambda: nc.stats.reconnects == 1, timeout=30)
        nc.publish("a", b"after")
        assert sub.next(timeout=10).data == b"after"
        assert len(given) == 2
        wait_until(lambda: told, timeout=10)
        (error,) = told
        assert isinstance(error, jetsync.AuthorizationError)
        assert "expired" in str(error).lower()
        assert accounts.user.seed not in str(error) + repr(nc.options)


def test_a_password_that_changes_in_a_reload_is_asked_for_again(record_figure):
    """The server hangs up, here without a word; the next attempt has the new password."""
    passwords = ["p0"]
    with (
        NatsServer(config=account_of("p0"), jetstream=False) as server,
        jetsync.connect(server.url, user="joe", password=lambda: passwords[-1]) as nc,
    ):
        sub = nc.subscribe("a")
        nc.flush(timeout=10)
        rotations = scaled(3, 50)
        for number in range(1, rotations + 1):
            passwords.append(f"p{number}")
            server.reload(account_of(f"p{number}"))
            await_reconnect(nc, number)
            nc.publish("a", b"%d" % number)
            assert sub.next(timeout=10).data == b"%d" % number
        record_figure("passwords rotated under a live connection", rotations)
        assert nc.stats.reconnects == rotations


def test_a_password_that_comes_late_is_waited_for():
    """A bad configuration ends no client: attempts go on, with events, until it is mended."""
    password = ["old"]
    with (
        NatsServer(config=account_of("old"), jetstream=False) as server,
        jetsync.connect(server.url, user="joe", password=lambda: password[0]) as nc,
    ):
        server.reload(account_of("new"))
        wait_until(lambda: not nc.is_connected, timeout=20)
        wait_until(lambda: isinstance(nc.last_error, jetsync.AuthorizationError), timeout=20)
        assert not nc.is_closed
        password[0] = "new"
        wait_until(lambda: nc.is_connected, timeout=20)
        nc.flush(timeout=10)


def test_abort_on_auth_error_ends_the_connection_after_so_many_refusals():
    refused: list[BaseException | None] = []
    closed = threading.Event()
    with NatsServer(config=account_of("old"), jetstream=False) as server:
        nc = jetsync.connect(
            server.url,
            user="joe",
            password="old",
            abort_on_auth_error=3,
            on_error=lambda event: refused.append(event.error),
            on_closed=lambda event: closed.set(),
        )
        sub = nc.subscribe("a")
        nc.flush(timeout=10)
        server.reload(account_of("new"))
        with pytest.raises(jetsync.ConnectionClosedError):
            sub.next(timeout=30)
        assert closed.wait(10)
        wait_until(lambda: nc.is_closed, timeout=10)
        assert [type(error) for error in refused] == [jetsync.AuthorizationError] * 3
        with pytest.raises(jetsync.ConnectionClosedError, match=r"[Aa]uthorization"):
            nc.publish("a")
        nc.close()


def test_abort_on_auth_error_counts_at_the_first_connect_too():
    with NatsServer(config=account_of("right"), jetstream=False) as server:
        begun = time.monotonic()
        with pytest.raises(jetsync.AuthorizationError):
            jetsync.connect(
                server.url,
                user="joe",
                password="wrong",
                abort_on_auth_error=1,
                retry_on_initial_connect=True,
            )
        assert time.monotonic() - begun < 5
