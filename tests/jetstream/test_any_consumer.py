"""A consumer under any name: what servers do not answer is asked for under another one as well."""

from __future__ import annotations

import json

import pytest

import jetsync
from jetsync.jetstream import api as requests
from jetsync.jetstream.api import API
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.consumers.requests import put_any_consumer
from tests.harness.fakeserver import FakeServer

LONG = 20.0


@pytest.fixture(autouse=True)
def short_silence(monkeypatch):
    monkeypatch.setattr(requests, "_SILENCE", 0.02)


def ask(url: str, timeout: float = LONG) -> tuple[str, list[str]]:
    """The name of the consumer that was made, and those that are not needed."""
    unused: list[str] = []
    with jetsync.connect(url) as nc:
        api = API(nc, domain=None, api_prefix=None, timeout=LONG)

        def config_of(name: str) -> ConsumerConfig:
            return ConsumerConfig(name=name, mem_storage=True)

        try:
            info = put_any_consumer(api, "S", "p", config_of, timeout, unused.append)
        except jetsync.Error as error:
            return type(error).__name__, unused
        finally:
            nc.close()
    return info.name, unused


class Servers:
    """The servers of a cluster, to one of which each consumer is given."""

    def __init__(self, answer: int, forged: str = "") -> None:
        self.asked: list[str] = []
        self._answer = answer
        self._forged = forged

    def __call__(self, peer) -> None:
        peer.handshake(api_lvl=5)
        sid = peer.expect(b"SUB").split()[-1]
        while True:
            line, payload = peer.expect_publish()
            self.asked.append(json.loads(payload)["config"]["name"])
            if len(self.asked) == 3:
                break
        name = self._forged or self.asked[self._answer]
        answer = {"stream_name": "S", "name": name, "config": {"name": name}}
        peer.send_message(line.split()[2], sid, json.dumps(answer).encode())
        peer.serve()


@pytest.mark.parametrize("answer", [0, 1, 2])
def test_the_first_consumer_that_a_server_made_counts_and_the_others_are_told(answer):
    """A server that died is chosen for consumers for half a minute, and never answers."""
    servers = Servers(answer)
    with FakeServer(servers) as fake:
        name, unused = ask(fake.url)
    asked = servers.asked
    assert len(set(asked)) == 3
    assert name == asked[answer]
    assert all(one.startswith("p") for one in asked)
    assert set(asked) - {name} <= set(unused)
    assert name not in unused


def test_without_any_answer_every_name_is_told():
    def script(peer):
        peer.handshake(api_lvl=5)
        peer.hold()

    with FakeServer(script) as fake:
        outcome, unused = ask(fake.url, 0.3)
    assert outcome == "TimeoutError"
    assert len(unused) > 2


def test_an_answer_about_another_consumer_is_refused():
    """Any client with the right to publish to a reply subject can write an answer."""
    servers = Servers(0, forged="theirs")
    with FakeServer(servers) as fake:
        outcome, unused = ask(fake.url)
    assert outcome == "ProtocolError"
    assert set(servers.asked) <= set(unused)
