"""How long a lookup waits for an answer before it asks again."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.jetstream import api
from tests.harness.fakeserver import FakeServer
from tests.harness.insides import round_trip_of

LONG = 20.0
ACCOUNT = b'{"memory":0,"storage":0,"streams":7,"consumers":0,"limits":{},"api":{}}'


@pytest.fixture
def waits(monkeypatch):
    """The seconds that each asking waits for its answer."""
    seconds: list[float] = []
    real = jetsync.client.requests.Exchange.ask

    def ask(exchange, deadline, link=0):
        seconds.append(deadline.timeout)
        return real(exchange, deadline, link)

    monkeypatch.setattr(jetsync.client.requests.Exchange, "ask", ask)
    return seconds


def silent(peer):
    peer.handshake(api_lvl=5)
    peer.hold()


def test_a_lookup_that_an_election_swallowed_is_asked_again_within_half_a_second(
    monkeypatch, waits
):
    assert api._SILENCE == 0.5
    monkeypatch.setattr(api, "_SILENCE", 0.02)
    with FakeServer(silent) as fake, jetsync.connect(fake.url) as nc:
        round_trip_of(nc).seconds = 0.001  # a longer one is waited for
        with pytest.raises(jetsync.TimeoutError):
            nc.jetstream().account_info(timeout=1.0)
        nc.close()
    assert len(waits) >= 5
    # However long the silence lasts: the wait that is under way when it ends makes the call late.
    assert max(waits) <= 1.0 / 8 + 0.001


def test_a_listing_which_many_servers_answer_is_asked_again_less_often(monkeypatch, waits):
    assert api._LISTING_SILENCE == 3.0
    monkeypatch.setattr(api, "_SILENCE", 0.02)
    with FakeServer(silent) as fake, jetsync.connect(fake.url) as nc:
        with pytest.raises(jetsync.TimeoutError):
            next(iter(nc.jetstream().streams(timeout=0.3)))
        nc.close()
    assert len(waits) == 1


def test_a_lookup_that_the_servers_refuse_for_the_moment_is_asked_again():
    """As while the servers elect the leader of JetStream itself."""
    refused = b'{"error":{"code":503,"err_code":10008,"description":"temporarily unavailable"}}'

    def script(peer):
        peer.handshake(api_lvl=5)
        sid = peer.expect(b"SUB").split()[-1]
        for answer in (refused, refused, ACCOUNT):
            peer.send_message(peer.expect_publish()[0].split()[2], sid, answer)
        peer.serve()

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        assert nc.jetstream().account_info(timeout=LONG).streams == 7


def test_a_lookup_is_not_asked_again_while_its_answer_may_be_under_way():
    """On a slow link the answer comes behind what was sent before: copies would only add to it."""

    def script(peer):
        peer.handshake(api_lvl=5)
        sid = peer.expect(b"SUB").split()[-1]
        reply = peer.expect_publish()[0].split()[2]
        peer.send(b"PING\r\n")  # bytes arrive, the answer may be behind them
        peer.expect(b"PONG")
        peer.expect(b"PING")
        peer.send(b"PONG\r\n")  # now everything has arrived that was sent before
        again = peer.expect_publish()[0].split()[2]
        assert again == reply
        peer.send_message(reply, sid, ACCOUNT)
        peer.serve()

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        assert nc.jetstream().account_info(timeout=LONG).streams == 7
