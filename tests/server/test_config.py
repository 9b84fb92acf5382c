"""Configuration reaches the real server, as text and as a mapping."""

from __future__ import annotations

import json

import pytest

from jetsync.server import NatsServer
from tests.harness.raw import RawClient


def signs_in(url, **credentials):
    with RawClient(url) as raw:
        raw.read_line()
        raw.send(b"CONNECT " + json.dumps(credentials).encode() + b"\r\nPING\r\n")
        return raw.read_line() in (b"+OK", b"PONG")


PASSWORD = 'a "quoted" $word with \\ and ü'
QUOTED = json.dumps(PASSWORD, ensure_ascii=False)


@pytest.mark.parametrize(
    "config",
    [
        {"authorization": {"users": [{"user": "joe", "password": PASSWORD}, {"user": "eve"}]}},
        "authorization { users: [{ user: joe, password: %s }] }" % QUOTED,  # noqa: UP031
    ],
    ids=["mapping", "text"],
)
def test_users_and_passwords(config):
    with NatsServer(config=config) as server:
        assert signs_in(server.url, user="joe", **{"pass": PASSWORD})
        assert not signs_in(server.url, user="joe", **{"pass": "wrong"})
        assert not signs_in(server.url)


def test_accounts_limits_and_jetstream_settings_beside_the_helpers_own():
    config = {
        "accounts": {
            "A": {"jetstream": {"max_streams": 1}, "users": [{"user": "a", "password": "p"}]},
            "SYS": {"users": [{"user": "s", "password": "p"}]},
        },
        "system_account": "SYS",
        "no_auth_user": "a",
        "jetstream": {"max_memory_store": 10_000_000},
        "max_payload": 12345,
        "ping_interval": "7s",
    }
    with NatsServer(config=config) as server, RawClient(server.url) as raw:
        assert raw.handshake()["max_payload"] == 12345
        assert raw.api("INFO")["limits"]["max_streams"] == 1
        about = server.monitor("varz")
        assert about["ping_interval"] == 7_000_000_000
        assert about["jetstream"]["config"]["max_memory"] == 10_000_000
        assert about["jetstream"]["config"]["store_dir"].startswith(str(server.store_dir))


def test_what_the_helper_needs_wins_over_the_configuration():
    config = {"port": 1, "host": "0.0.0.0", "server_name": "theirs", "log_file": "/nowhere/x"}
    with NatsServer(config=config, name="ours") as server, RawClient(server.url) as raw:
        info = raw.handshake()
        assert (info["server_name"], info["host"]) == ("ours", "127.0.0.1")
        server.reload()
        assert "Reloaded" in server.log


def test_more_command_line_arguments():
    with NatsServer(arguments=["-DV"]) as server, RawClient(server.url) as raw:
        raw.handshake()
        assert "[DBG]" in server.log
        assert "[TRC]" in server.log
