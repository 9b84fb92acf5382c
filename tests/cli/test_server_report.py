"""``server report``: what servers say of connections and JetStream to each kind of user."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import jetsync
from jetsync.server import NatsCluster, NatsServer
from tests.cli.run_command import Done, run
from tests.harness.waiting import wait_until

ACCOUNTS = {
    "system_account": "SYS",
    "accounts": {
        "SYS": {"users": [{"user": "sys", "password": "p"}]},
        "SHOP": {"jetstream": "enabled", "users": [{"user": "shop", "password": "p"}]},
        "OTHER": {"users": [{"user": "other", "password": "p"}]},
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(config=ACCOUNTS) as running:
        yield running


def url_of(server: NatsServer | NatsCluster, user: str) -> str:
    return re.sub("://", f"://{user}:p@", server.url)


def report(server: NatsServer | NatsCluster, user: str, *words: str) -> Done:
    return run("server", "report", *words, NATS_URL=url_of(server, user))


@pytest.fixture
def busy(server) -> Iterator[jetsync.Connection]:
    """A connection with more subscriptions and bytes than that of the command."""
    with jetsync.connect(url_of(server, "shop"), name="till") as nc:
        subscriptions = [nc.subscribe(f"orders.{number}") for number in range(3)]
        nc.publish("orders.0", b"x" * 5000)
        nc.flush()
        assert subscriptions[0].next(5).size
        yield nc


def test_a_system_user_sees_the_connections_of_all_accounts(server, busy) -> None:
    with jetsync.connect(url_of(server, "other"), name="idle"):
        found = report(server, "sys", "connections", "--json").json
        names = [one["name"] for one in found]
        assert (names[0], sorted(names)) == ("till", ["idle", "jetsync", "till"])
        assert (found[0]["account"], found[0]["subscriptions"]) == ("SHOP", 3)
        assert found[0]["server"] == server.name
        top = report(server, "sys", "conns", "--sort", "out-bytes", "--top", "1", "-j").json
        assert [one["name"] for one in top] == ["till"]
        newest = report(server, "sys", "connections", "--sort", "cid", "-R", "-j").json
        assert [one["name"] for one in newest] == ["jetsync", "idle", "till"]
        of_shop = report(server, "sys", "connz", "--account", "SHOP", "--subject", "orders.1")
        assert ("till" in of_shop.out, "idle" in of_shop.out) == (True, False)
        of_other = report(server, "sys", "connections", "--username", "other", "-j").json
        assert [one["name"] for one in of_other] == ["idle"]
        refused = report(server, "sys", "connections", "--subject", "orders.1")
        assert (refused.code, "account" in refused.err) == (1, True)


def test_any_user_sees_the_connections_of_its_account(server, busy) -> None:
    with jetsync.connect(url_of(server, "other"), name="idle"):
        found = report(server, "shop", "connections", "--json").json
    assert {one["name"] for one in found} == {"till", "jetsync"}


def test_connections_that_have_ended_say_why(server) -> None:
    with jetsync.connect(url_of(server, "other"), name="gone"):
        pass

    def reasons() -> list[str]:
        told = report(server, "sys", "connections", "--state", "closed", "--json").json
        return [one["reason"] for one in told if one.get("name") == "gone"]

    wait_until(lambda: reasons() == ["Client Closed"], 30)
    assert "Client Closed" in report(server, "sys", "connections", "--state", "all").out


def test_a_page_of_connections_is_not_all(server, busy, monkeypatch) -> None:
    monkeypatch.setattr("jetsync.cli.server_report._PAGE", 1)
    found = report(server, "sys", "connections", "--json").json
    assert {one["name"] for one in found} == {"till", "jetsync"}
    assert len(found) == 2


def test_what_jetstream_holds_is_for_system_users(server, busy) -> None:
    js = busy.jetstream()
    for name in ("A", "B"):
        stream = js.create_stream(name=name, subjects=[name], storage="memory")
        stream.create_consumer(durable_name="c")
        js.publish(name, b"12345")
    (all_accounts,) = report(server, "sys", "jetstream", "--json").json
    (one,) = report(server, "sys", "jsz", "--account", "SHOP", "--json").json
    for found in (all_accounts, one):
        assert (found["server"], found["streams"], found["consumers"]) == (server.name, 2, 2)
        assert (found["messages"], found["bytes"] > 10) == (2, True)
    assert one["api"]["total"] >= 4
    assert server.name in report(server, "sys", "js", "--sort", "mbytes").out
    refused = report(server, "shop", "jetstream")
    assert (refused.code, "system account" in refused.err) == (1, True)


def test_a_name_without_a_server_is_told(server) -> None:
    words = ("connections", "--host", "nobody", "--timeout", "300ms")
    done = report(server, "sys", *words)
    assert (done.code, "no server of that name" in done.err) == (1, True)
    asked = report(server, "sys", "connections", "--host", server.name, "--json").json
    assert {one["server"] for one in asked} == {server.name}


def test_servers_of_the_meta_group_that_do_not_answer_are_listed() -> None:
    with NatsCluster(3, config=ACCOUNTS) as cluster:
        names = [one.name for one in cluster.servers]

        def states() -> dict[str, str]:
            found = report(cluster, "sys", "jetstream", "--json").json
            return {one["server"]: one["meta"] for one in found}

        wait_until(lambda: sorted(states().values()) == ["current", "current", "leader"], 60)
        assert list(states()) == names
        lost = next(one for one in cluster.servers if states()[one.name] == "current")
        lost.kill()
        wait_until(lambda: states()[lost.name] in ("no answer", "offline"), 60)
        shown = report(cluster, "sys", "jetstream").out.splitlines()
        assert shown[-1].split()[:3] == [lost.name, "-", "-"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("routes",), "connections or jetstream"),
        (("jetstream", "--sort", "subs"), "--sort is one of"),
        (("jetstream", "--subject", "x"), "go with connections"),
        (("connections", "--sort", "streams"), "--sort is one of"),
    ],
)
def test_a_report_that_does_not_exist_is_refused_unconnected(words, said) -> None:
    done = run("server", "report", *words, NATS_URL="nats://127.0.0.1:1")
    assert (done.code, said in done.err) == (2, True), done.err
