"""``doctor`` tells each thing that is wrong in one sentence, and what to do about it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import jetsync
from jetsync.cli import doctor, extras
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.server import NatsCluster, NatsServer
from tests.cli.run_command import run
from tests.harness.conditioner import Link
from tests.harness.older import OLDER_VERSIONS, older_server
from tests.harness.waiting import wait_until

CONFIG = """jetstream {}
accounts {
    A {
        jetstream: { max_streams: 4, max_consumers: 5, max_file: 1MB }
        users: [{ user: a, password: a }]
    }
    B { users: [{user: b, password: b}] }
}"""


@pytest.fixture(scope="module")
def server():
    with NatsServer(config=CONFIG) as running:
        yield running


def findings(server: NatsServer, user: str) -> list[tuple[str, str, str]]:
    done = run("doctor", "--json", "-s", server.url, "--user", user, "--password", user)
    found = json.loads(done.out)
    assert done.code == (1 if any(one["result"] == "problem" for one in found) else 0)
    assert all(one["remedy"] for one in found if one["result"] != "ok")
    assert not any("\n" in one["text"] for one in found)
    return [(one["result"], one["about"], one["text"]) for one in found if one["result"] != "ok"]


def test_an_account_without_jetstream_is_told(server: NatsServer) -> None:
    ((result, about, text),) = findings(server, "b")
    assert (result, about) == ("problem", "JetStream")
    assert "not enabled" in text


def test_what_is_wrong_with_streams_and_consumers_is_told(server: NatsServer) -> None:
    """Limits near, a full stream, acknowledgements that are missing, stalled consumers, repeats,
    a window that is too short, a mirror without its origin."""
    with jetsync.connect(server.url, user="a", password="a") as nc:
        js = nc.jetstream()
        stream = js.create_stream(
            name="D", subjects=["d.>"], duplicate_window=10.0, max_msgs=10, discard="new"
        )
        for _ in range(10):
            js.publish("d.x", b"x")
        full = stream.create_consumer(durable_name="full", name="full", max_ack_pending=3)
        full.fetch(3, timeout=5)
        again = stream.create_consumer(durable_name="again", name="again", ack_wait=0.1)
        again.fetch(1, timeout=5)
        wait_until(lambda: again.fetch(1, timeout=1) and again.info().num_redelivered, timeout=20)
        stream.create_consumer(durable_name="idle", name="idle")
        stream.create_consumer(durable_name="push", name="push", deliver_subject="unread.there")
        js.create_stream(name="E", subjects=["e"])
        js.create_stream(name="F", subjects=["f"])
        mirror = js.create_stream(name="MIRROR", mirror=jetsync.StreamSource(name="GONE"))
        wait_until(lambda: (origin := mirror.info().mirror) and origin.error, timeout=20)
        found = set(findings(server, "a"))
    expected = [
        ("problem", "account", "streams: 4 of 4 used, which is all"),
        ("warning", "account", "consumers: 4 of 5 used"),
        ("problem", "stream D", "messages: 10 of 10 used, which is all"),
        ("problem", "consumer D/full", "unacknowledged: 3 messages, as many as may be"),
        ("warning", "consumer D/idle", "no client pulls from it; unprocessed: 10 messages"),
        ("problem", "consumer D/push", "it delivers to a subject without subscribers"),
        ("warning", "consumer D/again", "delivered more than once"),
        ("warning", "consumer D/idle", "the duplicate window of its stream (10s) is shorter"),
        ("problem", "stream MIRROR", "it cannot copy from GONE: stream not found"),
    ]
    for result, about, text in expected:
        assert any((result, about) == one[:2] and one[2].startswith(text) for one in found), text


def test_a_consumer_that_is_paused_is_told() -> None:
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        stream = nc.jetstream().create_stream(name="P", subjects=["p"], storage="memory")
        nc.jetstream().publish("p", b"x")
        consumer = stream.create_consumer(durable_name="resting")
        consumer.pause(datetime.now(timezone.utc) + timedelta(hours=1))
        done = run("doctor", "--json", "-s", server.url)
        assert [one["text"] for one in done.json if one["about"] == "consumer P/resting"] == [
            "it is paused; unprocessed: 1 message"
        ]
        assert done.code == 0  # a warning


def test_a_clock_that_is_wrong_is_told() -> None:
    now = datetime.now(timezone.utc)
    assert doctor._clock(now).result == "ok"
    wrong = doctor._clock(now - timedelta(minutes=2))
    assert (wrong.result, "ahead of the server" in wrong.text) == ("warning", True)
    assert "behind the server" in doctor._clock(now + timedelta(minutes=2)).text
    assert wrong.remedy is not None


@pytest.mark.parametrize(("shift", "way"), [("+120s", "ahead of"), ("-120s", "behind")])
def test_a_machine_whose_clock_is_wrong_is_told(tmp_path: Path, shift: str, way: str) -> None:
    """The command runs with another time than the server."""
    faketime = shutil.which("faketime")
    if faketime is None:
        pytest.skip("needs faketime; the next test knows the sentences")
    with NatsServer(store_dir=tmp_path) as server, jetsync.connect(server.url) as nc:
        nc.jetstream().create_stream(name="CLOCK", subjects=["clock"])
        done = subprocess.run(
            [
                *(faketime, "--exclude-monotonic", "-f", shift),
                *(sys.executable, "-m", "jetsync", "doctor", "--json", "-s", server.url),
            ],
            env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    (clock,) = (one for one in json.loads(done.stdout) if one["about"] == "clock")
    assert clock["result"] == "warning"
    assert f"{way} the server" in clock["text"]
    assert re.search("is (1m[3-5]|2m)", clock["text"])


def test_a_mirror_that_hears_nothing_is_told() -> None:
    about = {"config": {"name": "M", "mirror": {"name": "O"}}, "state": {}}
    for active, text in ((-1, "nothing yet"), (300_000_000_000, "nothing for a while")):
        info = StreamInfo.from_wire({**about, "mirror": {"name": "O", "active": active}})
        (found,) = doctor._stream(info)
        assert found.text == f"of O, which it copies, it has heard {text}"
        assert found.remedy


def test_replicas_that_are_behind_or_away_are_told() -> None:
    info = StreamInfo.from_wire(
        {
            "config": {"name": "R", "subjects": ["r"], "num_replicas": 3},
            "state": {},
            "cluster": {
                "leader": "a",
                "replicas": [
                    {"name": "b", "current": False, "lag": 1_234, "active": 2_000_000_000},
                    {"name": "c", "current": False, "offline": True},
                ],
            },
        }
    )
    behind, away = doctor._stream(info)
    assert (behind.result, behind.text) == (
        "warning",
        "its replica on b is behind by 1,234 operations, last heard of 2s ago",
    )
    assert (away.result, away.text) == ("problem", "its replica on c is offline")
    assert behind.remedy
    assert away.remedy


def test_a_replica_that_stands_still_is_told_until_it_has_caught_up() -> None:
    """Of three real servers one that follows stands still, goes on, and is shut down."""

    def told() -> list[str]:
        done = run("doctor", "--json", "-s", ",".join(there), "--timeout", "20")
        if not isinstance(done.json, list):
            return [done.err]  # it could not ask for the moment; the next time it can
        stream = [one for one in done.json if one["about"] == "stream LAGS"]
        assert done.code == (1 if any(one["result"] == "problem" for one in done.json) else 0)
        return [one["text"] for one in stream if one["result"] != "ok"]

    with NatsCluster(3) as cluster, jetsync.connect(cluster.urls) as nc:
        stream = nc.jetstream(timeout=20).create_stream(
            name="LAGS", subjects=["lags"], num_replicas=3
        )

        def settled() -> object:
            found = stream.info(timeout=20).cluster
            return found and found.leader and all(peer.current for peer in found.replicas) and found

        state: Any = wait_until(settled, timeout=60)
        meta = cluster.servers[0].monitor("jsz")["meta_cluster"]["leader"]
        still = next(peer.name for peer in state.replicas if peer.name != meta)
        server = next(one for one in cluster.servers if one.name == still)
        there = [one.url for one in cluster.servers if one is not server]
        with jetsync.connect(there) as near:
            server.pause()
            near.jetstream(timeout=20).publish_many([("lags", b"x")] * 500).raise_for_failed()
            behind = f"its replica on {still} is behind by "
            wait_until(lambda: [text for text in told() if text.startswith(behind)], timeout=60)
            server.resume()
            wait_until(lambda: not told(), timeout=60)
            server.stop()
            gone = f"its replica on {still} is offline"
            wait_until(lambda: gone in told(), timeout=60)


def test_a_real_server_of_the_oldest_line_is_fine() -> None:
    with older_server(OLDER_VERSIONS[0]) as server, jetsync.connect(server.url) as nc:
        stream = nc.jetstream().create_stream(name="OLD", subjects=["old"])
        stream.create_consumer(durable_name="worker")
        done = run("doctor", "--all", "--json", "-s", server.url)
    assert done.code == 0
    texts = {one["about"]: one["text"] for one in done.json if one["result"] == "ok"}
    assert texts["server"].endswith(f"runs nats-server {OLDER_VERSIONS[0]}")
    assert texts["stream OLD"] == "it and its consumers are fine"


def test_a_real_server_far_away_is_slow(server: NatsServer) -> None:
    with Link(server.url, rtt=0.3) as link:
        done = run("doctor", "--json", "-s", link.url, "--user", "b", "--password", "b")
    (slow,) = (one for one in done.json if one["about"] == "connection")
    assert slow["result"] == "warning"
    assert slow["text"].startswith("an answer takes ")


def test_an_old_server_that_is_slow_and_about_to_end_is_told() -> None:
    server = SimpleNamespace(version="2.9.25", server_name="old", ldm=True)
    connection = SimpleNamespace(server_info=server, rtt=lambda: 0.25)
    found = list(doctor._connection(connection))  # type: ignore[arg-type]
    assert [one.result for one in found] == ["warning"] * 3
    assert "2.9.25, which is older than 2.10" in found[0].text
    assert all(one.remedy for one in found)


def test_an_extra_that_is_missing_or_too_old_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pyarrow": "9.0.0", "rich": "15.0.0", "argcomplete": "3.7", "textual": None}
    monkeypatch.setattr(extras, "_version", lambda package: versions.get(package, "99"))
    old, *_, missing = doctor._extras()
    assert (old.result, old.about) == ("warning", "extras")
    assert old.text == "too old for jetsync[arrow]: pyarrow 9.0.0 (needed: 18)"
    assert old.remedy == 'pip install --upgrade "jetsync[arrow]"'
    assert (missing.result, missing.remedy) == ("ok", 'pip install "jetsync[cli]"')
