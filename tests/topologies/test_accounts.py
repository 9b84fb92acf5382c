"""A stream in one account that others use by imports; users whom a service of ours lets in."""

from __future__ import annotations

import base64
import contextlib
import json
import time

import pytest

import jetsync
from jetsync.protocol import nkeys
from jetsync.server import NatsServer
from tests.harness.accounts import Keys
from tests.harness.soak import scaled
from tests.harness.traffic import PATIENCE, Traffic
from tests.reliability.links import await_reconnect

RELOADS = scaled(1, 15)
SIGN_INS = scaled(1, 15)
LASTS = scaled(1.5, 4.0)

# What another account may use: the API below a prefix, a subject of the stream, acknowledgements.
SHARED = """
    accounts {
        OWNER {
            jetstream: enabled
            users: [{user: owner, password: p}]
            exports: [
                {service: "$JS.API.>", response_type: stream}
                {service: "i"}
                {service: "$JS.ACK.>"}
                {service: "$JS.FC.>"}
            ]
        }
        TEAM {
            users: [{user: team, password: p}]
            imports: [
                {service: {account: OWNER, subject: "$JS.API.>"}, to: "JS.owner.API.>"}
                {service: {account: OWNER, subject: "i"}, to: "orders"}
                {service: {account: OWNER, subject: "$JS.ACK.>"}}
                {service: {account: OWNER, subject: "$JS.FC.>"}}
            ]
        }
        REST { users: [{user: rest, password: p}, %s] }
    }
"""


def test_a_stream_of_another_account_is_used_through_imports_while_accounts_change(record_figure):
    """The API below a prefix, publishes mapped to another subject, acknowledgements."""
    with (
        NatsServer(config=SHARED % "") as server,
        jetsync.connect(server.url, user="owner", password="p") as there,
        jetsync.connect(server.url, user="team", password="p") as here,
    ):
        owner = there.jetstream(timeout=PATIENCE)
        owner.create_stream(name="I", subjects=["i"], storage="memory")
        js = here.jetstream(api_prefix="JS.owner.API", timeout=PATIENCE)
        readers = ("messages", "fetch", "ordered")  # a push would need an export of its subject
        with Traffic(js, "I", "orders", readers=readers, owner=owner) as traffic:
            for number in range(RELOADS):
                traffic.goes_on()
                server.reload(SHARED % f"{{user: new{number}, password: p}}")
                with jetsync.connect(server.url, user=f"new{number}", password="p") as new:
                    new.flush(timeout=PATIENCE)
            traffic.goes_on()
        record_figure("G39 imports: reloads", RELOADS)
        record_figure("G39 imports: confirmed", len(traffic.ledger.stored))
        record_figure("G39 imports: lost, doubled, late calls", traffic.faults, goal="0")


class Callout:
    """The service that decides who comes in: user ``app`` with password ``p``, for a while."""

    def __init__(self, lasts: float) -> None:
        self.issuer = Keys(nkeys.ACCOUNT)
        self.asked = 0
        self._lasts = lasts

    @property
    def config(self) -> str:
        return f"""
            accounts {{
                AUTH {{ users: [{{user: auth, password: p}}] }}
                APP {{ jetstream: enabled, users: [{{user: setup, password: p}}] }}
            }}
            authorization {{
                auth_callout {{
                    issuer: {self.issuer.public}, account: AUTH, auth_users: [auth, setup]
                }}
            }}
        """

    def answer(self, msg: jetsync.Msg) -> None:
        """Let the user in that a request is about, or say no."""
        claims = json.loads(_part(msg.data.decode(), 1))
        request = claims["nats"]
        given = request["connect_opts"]
        self.asked += 1
        answer = {"type": "authorization_response", "version": 2}
        if (given.get("user"), given.get("pass")) == ("app", "p"):
            unlimited = {"subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}
            answer["jwt"] = self.issuer.claim(
                request["user_nkey"],
                "app",
                {"type": "user", **unlimited},
                expires=time.time() + self._lasts,
                audience="APP",
            )
        else:
            answer["error"] = "unknown user"
        msg.respond(
            self.issuer.claim(
                request["user_nkey"], "answer", answer, audience=request["server_id"]["id"]
            ).encode()
        )


def _part(token: str, number: int) -> bytes:
    text = token.split(".")[number]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_users_that_expire_sign_in_again_by_the_callout_and_nothing_is_lost(record_figure):
    callout = Callout(LASTS)
    with (
        NatsServer(config=callout.config) as server,
        jetsync.connect(server.url, user="auth", password="p") as auth,
        jetsync.connect(server.url, user="setup", password="p") as setup,
    ):
        auth.subscribe("$SYS.REQ.USER.AUTH", callback=callout.answer)
        auth.flush(timeout=PATIENCE)
        owner = setup.jetstream(timeout=PATIENCE)
        owner.create_stream(name="A", subjects=["a"], storage="memory")
        with pytest.raises(jetsync.AuthorizationError):
            jetsync.connect(server.url, user="app", password="wrong")
        with contextlib.closing(
            jetsync.connect(server.url, user="app", password="p", reconnect_wait=0.05)
        ) as nc:
            js = nc.jetstream(timeout=PATIENCE)
            with Traffic(js, "A", "a", owner=owner) as traffic:
                for number in range(SIGN_INS):
                    traffic.goes_on()
                    await_reconnect(nc, number + 1)
                traffic.goes_on()
        record_figure("G39 auth callout: sign-ins", callout.asked, goal=f">= {SIGN_INS + 1}")
        record_figure("G39 auth callout: confirmed", len(traffic.ledger.stored))
        record_figure("G39 auth callout: outcome unknown", len(traffic.ledger.unknown))
        record_figure("G39 auth callout: lost, doubled, late calls", traffic.faults, goal="0")
        assert callout.asked > SIGN_INS
