"""JetStream that is switched off for an account while it is in use: the reason reaches the user."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until

PATIENCE = 30.0


def accounts(jetstream: str) -> str:
    return f"""
        accounts {{
            A: {{ users: [{{user: a, password: p}}], jetstream: {jetstream} }}
            SYS: {{ users: [{{user: s, password: p}}] }}
        }}
        system_account: SYS
    """


def test_readers_tell_why_nothing_comes_and_publishes_name_the_reason():
    told = []
    with (
        NatsServer(config=accounts("enabled")) as server,
        jetsync.connect(
            server.url,
            user="a",
            password="p",
            on_error=lambda event: told.append(type(event.error)),
        ) as nc,
    ):
        js = nc.jetstream(timeout=PATIENCE)
        stream = js.create_stream(name="S", subjects=["s"])
        with stream.create_consumer(durable_name="c").messages(
            heartbeat=0.5, expires=2
        ) as messages:
            js.publish("s", b"before")
            assert messages.next(timeout=PATIENCE).data == b"before"
            server.reload(accounts("disabled"))
            with pytest.raises(jetsync.NotStoredError, match="not enabled") as caught:
                js.publish("s", b"meanwhile", timeout=1)
            assert isinstance(caught.value, jetsync.JetStreamNotEnabledError)
            assert caught.value.err_code == 10039

            def heard():
                with pytest.raises(jetsync.TimeoutError):
                    messages.next(timeout=0.2)
                return jetsync.JetStreamNotEnabledError in told

            wait_until(heard, timeout=PATIENCE)
            assert told.count(jetsync.JetStreamNotEnabledError) == 1
            nc.close()
