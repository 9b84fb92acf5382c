"""How long a lookup waits for an answer before it asks again."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.jetstream import api
from tests.harness.fakeserver import FakeServer

LONG = 20.0


def test_silence_is_never_waited_out_for_long(monkeypatch):
    """Whenever the servers can answer again, they are asked within the longest silence."""
    assert (api._FIRST_SILENCE, api._LONGEST_SILENCE) == (2.0, 3.0)
    monkeypatch.setattr(api, "_FIRST_SILENCE", 0.02)
    monkeypatch.setattr(api, "_LONGEST_SILENCE", 0.03)
    waits: list[float] = []
    real = jetsync.client.requests.Exchange.ask

    def ask(exchange, deadline, link=0):
        waits.append(deadline.timeout)
        return real(exchange, deadline, link)

    monkeypatch.setattr(jetsync.client.requests.Exchange, "ask", ask)

    def script(peer):
        peer.handshake(api_lvl=5)
        peer.hold()

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        with pytest.raises(jetsync.TimeoutError):
            nc.jetstream().account_info(timeout=0.3)
        nc.close()
    assert waits[:3] == pytest.approx([0.02, 0.03, 0.03], abs=0.001)
    assert max(waits) <= 0.03
