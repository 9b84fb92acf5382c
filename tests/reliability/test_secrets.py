"""No secret shows in a repr, a text, a log line, an event or an error, however it was given."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import io
import logging
import pickle
import re
import stat
import traceback
from pathlib import Path
from typing import Any

import pytest

import jetsync
from jetsync._deadline import Deadline
from jetsync.client.dial import dial
from jetsync.protocol import nkeys
from jetsync.protocol.auth import Credentials
from jetsync.server import NatsServer
from jetsync.spark.options import LinkOptions
from tests.harness.fakeserver import FakeServer

MARK = "M4RK3R"
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
CREDS = (
    f"-----BEGIN NATS USER JWT-----\n{MARK}\n------END NATS USER JWT------\n\n"
    f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
)


def give(value: str) -> str:
    return value


def signed(seed: str, nonce: bytes) -> bytes:
    text = nkeys.sign_nonce(seed, nonce.decode())
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# Every way to give a secret to connect(), and what of it must not show.
WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "password": ({"user": "u", "password": MARK}, MARK),
    "password from a function": ({"user": "u", "password": functools.partial(give, MARK)}, MARK),
    "token": ({"token": MARK}, MARK),
    "token from a function": ({"token": functools.partial(give, MARK)}, MARK),
    "jwt and seed": ({"jwt": MARK, "nkey_seed": SEED}, MARK),
    "seed": ({"nkey_seed": SEED}, SEED),
    "seed from a function": ({"nkey_seed": functools.partial(give, SEED)}, SEED),
    "credentials as bytes": ({"credentials": CREDS.encode()}, MARK),
    "credentials from a function": (
        {"credentials": functools.partial(give, CREDS.encode())},  # type: ignore[arg-type]
        MARK,
    ),
    "password in the URL": ({"servers": f"nats://u:{MARK}@{{}}"}, MARK),
    "token in the URL": ({"servers": f"nats://{MARK}@{{}}"}, MARK),
    "one URL of several": ({"servers": ["nats://{}", f"nats://u:{MARK}@{{}}"]}, MARK),
    "a key that stays elsewhere": (
        {"nkey": nkeys.public_key(SEED), "sign": functools.partial(signed, SEED)},
        SEED,
    ),
    "a jwt whose key stays elsewhere": (
        {"jwt": MARK, "sign": functools.partial(signed, SEED)},
        MARK,
    ),
    "password of a proxy": ({"proxy": f"http://u:{MARK}@127.0.0.1:1"}, MARK),
    "password of a SOCKS proxy": ({"proxy": f"socks5://u:{MARK}@127.0.0.1:1"}, MARK),
    "key password": ({"tls": {"cert_file": "client", "key_password": MARK}}, MARK),
}


class Shown:
    """Everything that a program could print."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)

    def add(self, *things: object) -> None:
        for thing in things:
            self.stream.write(f"{thing!r}\n{thing}\n")
            if isinstance(thing, BaseException):
                self.stream.write("".join(traceback.format_exception(thing)))
                again = pickle.loads(pickle.dumps(thing))
                self.stream.write(f"{again!r}\n{again}\n")

    def event(self, event: jetsync.Event) -> None:
        self.add(event, event.connection, event.error, event.server)


@pytest.fixture
def shown():
    shown = Shown()
    logger = logging.getLogger("jetsync")
    level = logger.level
    logger.addHandler(shown.handler)
    logger.setLevel(logging.DEBUG)
    yield shown
    logger.removeHandler(shown.handler)
    logger.setLevel(level)


def filled(fields: dict[str, Any], address: str, certificates: Any) -> dict[str, Any]:
    """The fields with the address and real certificates in their places."""
    fields = dict(fields)
    servers = fields.pop("servers", "nats://{}")
    if isinstance(servers, str):
        fields["servers"] = servers.format(address)
    else:
        fields["servers"] = [one.format(address) for one in servers]
    if "tls" in fields:
        files = {"cert_file": certificates.client, "key_file": certificates.client_key}
        fields["tls"] = jetsync.TLSConfig(
            ca_file=certificates.ca, **files, key_password=fields["tls"]["key_password"]
        )
    return fields


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_shows_nowhere(way, shown, certificates):
    """On a server that takes it, one that refuses it, one that breaks off, and one that is away."""
    given, secret = WAYS[way]

    def refusing(peer):
        peer.send_info(nonce="abcdefghijk")
        with contextlib.suppress(AssertionError):  # it wants TLS, and there is none
            peer.read_line()
        peer.send(b"-ERR 'Authorization Violation'\r\n")

    def taking(peer):
        with contextlib.suppress(AssertionError):
            peer.handshake(nonce="abcdefghijk")
        with contextlib.suppress(OSError):  # the client may have closed the link again
            peer.send(b"-ERR 'User Authentication Revoked'\r\n")

    for script in (refusing, taking, lambda peer: None):
        with FakeServer(script) as fake:
            fields = filled(given, fake.url[7:], certificates)
            options = jetsync.ConnectOptions(**fields)
            shown.add(options, options._make_credentials(), options.server_urls())
            with contextlib.suppress(jetsync.Error):
                nc = jetsync.connect(
                    **fields,
                    max_reconnects=1,
                    reconnect_wait=0.01,
                    connect_timeout=1,
                    on_error=shown.event,
                    on_disconnected=shown.event,
                    on_closed=shown.event,
                )
                shown.add(nc, nc.stats, nc.connected_url, nc.jetstream(), nc.options)
                nc.close()
                shown.add(nc, nc.last_error)
            try:
                jetsync.connect(**fields, max_reconnects=0, connect_timeout=1).close()
            except jetsync.Error as error:
                shown.add(error)
    text = shown.stream.getvalue()
    assert len(text) > 500
    assert secret not in text


def test_a_link_and_its_pool_show_no_secret(shown):
    with NatsServer(jetstream=False) as server:
        options = jetsync.ConnectOptions(f"nats://u:{MARK}@127.0.0.1:{server.port}")
        url = options.server_urls()[0]
        link = dial(url, options, options._make_credentials(), Deadline(10), lambda sock: None)
        shown.add(link, url)
        link.sock.close()
    assert MARK not in shown.stream.getvalue()


@pytest.mark.parametrize(
    "bad",
    [
        f"nats://u:{MARK}@host:port",
        f"nats://u:{MARK}/x@host",
        f"nats://u:{MARK}%@host",
        f"http://u:{MARK}@host",
        f"nats://u:{MARK}@ho st",
        f"nats://u:{MARK},more@host",
    ],
)
def test_a_url_that_cannot_be_read_is_not_repeated_with_its_password(bad, shown):
    with pytest.raises(jetsync.ConfigError) as caught:
        jetsync.ConnectOptions(bad)
    shown.add(caught.value)
    assert MARK not in shown.stream.getvalue()


SECRET = re.compile(
    r"creds|credential|password|token|key|seed|jwt|sign|secret|proxy|^servers$|^tls$"
)
NAMES_A_PLACE = re.compile(r"(_file|_env)$|^tls_key$")


def test_every_option_that_takes_a_secret_is_tried():
    """The ways above cover the public surface: an option that is added has to be tried too."""
    tried = {name for given, _ in WAYS.values() for name in given}
    surface = {field.name for field in dataclasses.fields(jetsync.ConnectOptions)}
    assert {field.name for field in dataclasses.fields(Credentials)} <= tried <= surface
    assert {name for name in surface if SECRET.search(name)} <= tried
    inside = {field.name for field in dataclasses.fields(jetsync.TLSConfig)}
    assert {name for name in inside if SECRET.search(name)} == {"key_file", "key_password"}


LINK_SECRETS = [
    field.name
    for field in dataclasses.fields(LinkOptions)
    if SECRET.search(field.name) and not NAMES_A_PLACE.search(field.name) and field.name != "tls"
]


@pytest.mark.parametrize("field", LINK_SECRETS)
def test_the_link_options_of_spark_show_none(field, shown):
    assert {"creds", "nkey_seed", "password", "token", "servers"} == set(LINK_SECRETS)
    value = (f"nats://u:{MARK}@host", f"{MARK}@host") if field == "servers" else MARK
    options = LinkOptions(**{field: value})  # type: ignore[arg-type]
    shown.add(options, pickle.loads(pickle.dumps(options)), dataclasses.replace(options))
    assert MARK not in shown.stream.getvalue()


def test_the_secrets_of_a_server_are_in_no_process_argument(shown):
    """Every user of a machine can read the arguments of its processes."""
    login = {"authorization": {"user": "u", "password": MARK}}
    with NatsServer(jetstream=False, config=login) as server:
        assert server.pid is not None
        arguments = Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert b"nats-server" in arguments
        assert MARK.encode() not in arguments
        shown.add(server)
        jetsync.connect(server.url, user="u", password=MARK).close()
        config = next(Path(word.decode()) for word in arguments.split(b"\0") if b".conf" in word)
        assert MARK in config.read_text()
        assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700
    with pytest.raises(jetsync.Error) as caught:
        NatsServer(jetstream=False, config={**login, "no_such_field": 1}).start()
    shown.add(caught.value)
    assert MARK not in shown.stream.getvalue()


def test_text_of_a_peer_stays_on_its_line(shown):
    """It can neither steer a terminal nor forge a line of the log."""

    def script(peer):
        peer.handshake()
        peer.send("-ERR 'x \x1b[2J\x07 \rERROR root: forged \u202e \x9b'\r\n".encode())
        peer.serve()

    told: list[BaseException | None] = []
    with (
        FakeServer(script) as fake,
        jetsync.connect(fake.url, on_error=lambda event: told.append(event.error)) as nc,
    ):
        nc.flush(timeout=10)
    error = jetsync.APIError(code=500, description="one\nERROR root: forged\x1b[2J")
    shown.add(error, *told)
    text = shown.stream.getvalue()
    assert len(told) == 1
    for odd in ("\x1b", "\x07", "\r", "\u202e", "\x9b"):
        assert odd not in text
    assert not [line for line in text.splitlines() if line.startswith("ERROR root")]
