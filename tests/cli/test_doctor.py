"""``doctor`` tells each thing that is wrong in one sentence, and what to do about it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

import jetsync
from jetsync.cli import doctor, extras
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.server import NatsServer
from tests.cli.run_command import run
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


def test_a_clock_that_is_wrong_is_told() -> None:
    now = datetime.now(timezone.utc)
    assert doctor._clock(now).result == "ok"
    wrong = doctor._clock(now - timedelta(minutes=2))
    assert (wrong.result, "ahead of the server" in wrong.text) == ("warning", True)
    assert "behind the server" in doctor._clock(now + timedelta(minutes=2)).text
    assert wrong.remedy is not None


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
                    {"name": "b", "current": False, "lag": 1_234},
                    {"name": "c", "current": False, "offline": True},
                ],
            },
        }
    )
    behind, away = doctor._stream(info)
    assert (behind.result, behind.text) == ("warning", "its replica on b is 1,234 behind")
    assert (away.result, away.text) == ("problem", "its replica on c is offline")
    assert behind.remedy
    assert away.remedy


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
