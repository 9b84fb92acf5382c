"""Credentials: one kind at a time, asked anew each time, never shown."""

from __future__ import annotations

import base64
import pickle
import sys
import time
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import nkeys as package
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.errors import ConfigError
from jetsync.protocol import nkeys
from jetsync.protocol.auth import Credentials, parse_creds
from jetsync.protocol.url import ServerURL, parse_server

SEED = nkeys.encode_seed(nkeys.USER, bytes(range(32)))
OTHER_SEED = nkeys.encode_seed(nkeys.USER, bytes(range(32, 64)))
PUBLIC = nkeys.public_key(SEED)
JWT = "eyJ0eXAiOiJKV1QifQ.eyJzdWIiOiJVIn0.c2ln-_X"
NONCE = "P6pLGkVDA9w2Xg"
SIG = nkeys.sign_nonce(SEED, NONCE)

CREDS = f"""-----BEGIN NATS USER JWT-----
{JWT}
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.
NKEYs are sensitive and should be treated as secrets.

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------

*************************************************************
"""


def from_module() -> str:
    """A callable that pickles."""
    return "s3cret"


@pytest.mark.parametrize(
    ("given_", "kind", "expected"),
    [
        ({}, None, {}),
        ({"user": "bob", "password": "p"}, "user", {"user": "bob", "pass": "p"}),
        ({"user": "bob", "password": ""}, "user", {"user": "bob", "pass": ""}),
        ({"user": "bob"}, "user", {"user": "bob"}),
        ({"token": "t"}, "token", {"auth_token": "t"}),
        ({"nkey_seed": SEED}, "nkey", {"nkey": PUBLIC, "sig": SIG}),
        ({"nkey_seed": SEED + "\n"}, "nkey", {"nkey": PUBLIC, "sig": SIG}),
        ({"jwt": JWT}, "jwt", {"jwt": JWT}),
        ({"jwt": JWT + "\n", "nkey_seed": SEED}, "jwt", {"jwt": JWT, "sig": SIG}),
        ({"credentials": CREDS.encode()}, "credentials", {"jwt": JWT, "sig": SIG}),
    ],
)
def test_each_kind_gives_its_connect_fields(
    given_: dict[str, Any], kind: str | None, expected: dict[str, str]
) -> None:
    credentials = Credentials(**given_)
    assert credentials.kind == kind
    assert credentials.resolve(NONCE) == expected


@pytest.mark.parametrize("nonce", [None, ""])
@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"nkey_seed": SEED}, {"nkey": PUBLIC}),
        ({"jwt": JWT, "nkey_seed": SEED}, {"jwt": JWT}),
        ({"credentials": CREDS.encode()}, {"jwt": JWT}),
    ],
)
def test_without_a_nonce_nothing_is_signed(
    given_: dict[str, Any], expected: dict[str, str], nonce: str | None
) -> None:
    assert Credentials(**given_).resolve(nonce) == expected


def test_the_signature_is_over_the_nonce_of_this_attempt() -> None:
    credentials = Credentials(nkey_seed=SEED)
    for nonce in ("one", "two"):
        sig = credentials.resolve(nonce)["sig"]
        raw = base64.urlsafe_b64decode(sig + "=" * (-len(sig) % 4))
        assert package.from_seed(SEED.encode()).verify(nonce.encode(), raw)


ONE_OF_EACH: dict[str, Any] = {
    "user": "u",
    "token": "s3cret",
    "credentials": "/s3cret",
    "nkey_seed": SEED,
    "jwt": JWT,
}


@pytest.mark.parametrize("first", ONE_OF_EACH)
@pytest.mark.parametrize("second", ONE_OF_EACH)
def test_two_kinds_are_a_conflict_that_is_named(first: str, second: str) -> None:
    both = {first: ONE_OF_EACH[first], second: ONE_OF_EACH[second]}
    if first == second or {first, second} == {"nkey_seed", "jwt"}:
        Credentials(**both)
        return
    with pytest.raises(ConfigError) as caught:
        Credentials(**both)
    text = str(caught.value)
    assert first in text
    assert second in text
    for secret in ("s3cret", SEED, JWT):
        assert secret not in text


@pytest.mark.parametrize(
    "wrong",
    [
        {"password": "s3cret"},
        {"user": ""},
        {"user": 7},
        {"user": "u", "password": b"s3cret"},
        {"token": ""},
        {"token": ["s3cret"]},
        {"nkey_seed": ""},
        {"nkey_seed": SEED.encode()},
        {"jwt": ""},
        {"credentials": ""},
        {"credentials": b""},
        {"credentials": 7},
        {"credentials": CREDS},
        {"token": "s3cret", "password": "s3cret"},
    ],
)
def test_unusable_values_are_refused_at_once_and_not_shown(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Credentials(**wrong)
    text = str(caught.value)
    assert any(name in text for name in wrong)
    for secret in ("s3cret", SEED, JWT):
        assert secret not in text


@pytest.mark.parametrize(
    ("name", "field", "extra"),
    [
        ("user", "user", {}),
        ("password", "pass", {"user": "u"}),
        ("token", "auth_token", {}),
        ("jwt", "jwt", {}),
    ],
)
def test_a_callable_is_asked_again_at_every_attempt(
    name: str, field: str, extra: dict[str, Any]
) -> None:
    answers = iter(["first", "second"])
    given: dict[str, Any] = {name: lambda: next(answers), **extra}
    credentials = Credentials(**given)
    assert credentials.resolve(NONCE)[field] == "first"
    assert credentials.resolve(NONCE)[field] == "second"


def test_a_callable_seed_is_asked_again_at_every_attempt() -> None:
    answers = iter([SEED, OTHER_SEED])
    credentials = Credentials(nkey_seed=lambda: next(answers))
    assert credentials.resolve(NONCE)["nkey"] == PUBLIC
    assert credentials.resolve(NONCE)["nkey"] == nkeys.public_key(OTHER_SEED)


def boom() -> str:
    raise RuntimeError("s3cret")


@pytest.mark.parametrize("name", ["user", "token", "jwt", "nkey_seed", "credentials"])
@pytest.mark.parametrize("function", [boom, lambda: None, lambda: 7, lambda: "", lambda: boom])
def test_a_callable_that_fails_is_a_config_error_without_the_secret(
    name: str, function: Any
) -> None:
    credentials = Credentials(**{name: function})
    with pytest.raises(ConfigError, match=name) as caught:
        credentials.resolve(NONCE)
    assert "s3cret" not in str(caught.value)


def test_the_creds_file_is_read_at_every_attempt(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    credentials = Credentials(credentials=str(file))
    with pytest.raises(ConfigError, match=r"user\.creds.*cannot be read"):
        credentials.resolve(NONCE)
    file.write_text(CREDS)
    assert credentials.resolve(NONCE) == {"jwt": JWT, "sig": SIG}
    file.write_text(CREDS.replace(JWT, "renewed").replace(SEED, OTHER_SEED))
    renewed = {"jwt": "renewed", "sig": nkeys.sign_nonce(OTHER_SEED, NONCE)}
    assert credentials.resolve(NONCE) == renewed
    assert Credentials(credentials=file).resolve(NONCE) == renewed
    assert Credentials(credentials=lambda: file).resolve(NONCE) == renewed
    assert Credentials(credentials=lambda: file.read_bytes()).resolve(NONCE) == renewed


def test_a_path_may_start_at_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "user.creds").write_text(CREDS)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Credentials(credentials="~/user.creds").resolve(NONCE)["jwt"] == JWT


@pytest.mark.parametrize(
    "content",
    [
        CREDS,
        CREDS.replace("\n", "\r\n"),
        CREDS.replace("------END", "-----END"),
        CREDS.replace("-----BEGIN", "---BEGIN").replace("------END", "---END"),
        CREDS.replace("-----BEGIN ", "----- BEGIN ").replace("JWT-----", "JWT -----"),
        CREDS.replace(JWT, f"  {JWT}  "),
        CREDS.replace("NATS USER JWT", "USER JWT"),
        "text before\n" + CREDS,
        "\n".join(CREDS.splitlines()[8:] + CREDS.splitlines()[:4]),
    ],
    ids=range(9),
)
def test_the_framing_of_creds_may_vary(content: str) -> None:
    assert parse_creds(content.encode()) == (JWT, SEED)


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        (b"nothing", "user JWT"),
        (CREDS.replace("USER NKEY SEED", "OTHER").encode(), "nkey seed"),
        (CREDS.replace("NATS USER JWT", "OTHER").encode(), "user JWT"),
        (CREDS.replace(JWT, "").encode(), "user JWT"),
        (b"\xff\xfe" + CREDS.encode(), "not text"),
    ],
)
def test_bad_creds_say_what_is_missing_and_nothing_of_the_content(
    content: bytes, missing: str
) -> None:
    with pytest.raises(ConfigError, match=missing) as caught:
        Credentials(credentials=content).resolve(NONCE)
    assert SEED not in str(caught.value)
    assert JWT not in str(caught.value)


def test_a_bad_creds_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "empty.creds"
    file.write_text("")
    with pytest.raises(ConfigError, match=r"empty\.creds"):
        Credentials(credentials=file).resolve(NONCE)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("nats://h", {}),
        ("nats://t@h", {"auth_token": "t"}),
        ("nats://bob:p@h", {"user": "bob", "pass": "p"}),
        ("nats://bob:@h", {"user": "bob", "pass": ""}),
    ],
)
def test_the_entry_in_the_url_counts_when_nothing_else_was_given(
    server: str, expected: dict[str, str]
) -> None:
    place: ServerURL = parse_server(server)
    assert Credentials().resolve(NONCE, server=place) == expected
    assert Credentials(token="x").resolve(NONCE, server=place) == {"auth_token": "x"}


@pytest.mark.parametrize(
    "given_",
    [{"nkey_seed": SEED}, {"jwt": JWT, "nkey_seed": SEED}, {"credentials": CREDS.encode()}],
)
def test_signing_without_a_package_says_what_to_install(
    given_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    monkeypatch.setitem(sys.modules, "nkeys", None)
    with pytest.raises(ConfigError, match=r'pip install "jetsync\[nkeys\]"'):
        Credentials(**given_).resolve(NONCE)


SECRET = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=25, max_size=40)


@settings(deadline=None)
@given(SECRET, st.sampled_from(["password", "token", "nkey_seed", "jwt", "content"]))
def test_repr_never_shows_a_secret(secret: str, name: str) -> None:
    given_: dict[str, Any] = {name: secret}
    if name == "password":
        given_["user"] = "bob"
    if name == "content":
        given_ = {"credentials": secret.encode()}
    credentials = Credentials(**given_)
    assert secret not in repr(credentials)
    assert secret not in str([credentials])


def test_repr_shows_what_is_no_secret() -> None:
    assert repr(Credentials()) == "Credentials()"
    shown = repr(Credentials(user="bob", password=from_module))
    assert shown == "Credentials(user='bob', password=<callable>)"
    assert (
        repr(Credentials(credentials="/etc/a.creds")) == "Credentials(credentials='/etc/a.creds')"
    )


@pytest.mark.parametrize(
    "credentials",
    [
        Credentials(),
        Credentials(user="u", password="p"),
        Credentials(token=from_module),
        Credentials(credentials=Path("/a.creds")),
        Credentials(jwt=JWT, nkey_seed=SEED),
    ],
)
def test_it_is_frozen_and_picklable(credentials: Credentials) -> None:
    again = pickle.loads(pickle.dumps(credentials))
    assert again == credentials
    assert hash(again) == hash(credentials)
    with pytest.raises(FrozenInstanceError):
        credentials.token = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    "content",
    [
        "-" * 65_000,
        "BEGIN " + "-" * 65_000,
        "-----BEGIN NATS USER JWT-----\n" + "- " * 32_000,
        "-----BEGIN A-----\n" * 3_000,
        "---\n" * 16_000,
        "a " * 32_000,
    ],
    ids=lambda content: content[:20],
)
def test_the_time_to_read_creds_grows_like_their_size(content: str) -> None:
    begin = time.process_time()
    with pytest.raises(ConfigError):
        parse_creds(content.encode())
    assert time.process_time() - begin < 1  # a search of each dash behind each other takes 40


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1])
def test_creds_have_a_largest_size(size: int) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_creds(bytes(size))
    assert ("larger" in str(caught.value)) == (size > 1 << 16)


def test_a_device_without_an_end_is_no_creds_file() -> None:
    with pytest.raises(ConfigError, match="larger"):
        Credentials(credentials="/dev/zero").resolve("nonce")


def test_a_creds_file_that_others_can_read_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for mode, told in ((0o600, 0), (0o640, 0), (0o644, 1)):
        file = tmp_path / f"{mode:o}.creds"
        file.write_text("nothing")
        file.chmod(mode)
        caplog.clear()
        for _ in range(2):
            with pytest.raises(ConfigError):
                Credentials(credentials=file).resolve("nonce")
        assert len(caplog.records) == told
        assert all(str(file) in record.getMessage() for record in caplog.records)
