"""Secrets come from files, texts or the environment, and show nowhere."""

from __future__ import annotations

import base64

import pytest

from jetsync.spark.connection import connect_options, link_of
from jetsync.spark.errors import SparkOptionError
from jetsync.spark.options import LinkOptions
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.secrets import secret_file

SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
CREDS = f"""\
-----BEGIN NATS USER JWT-----
eyJ0eXAiOiJKV1QifQ.e30.c2ln
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------
"""


def encoded(text):
    return "base64:" + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("form", [str, encoded])
@pytest.mark.parametrize("way", ["creds", "credsEnv"])
def test_credentials_may_be_a_text(monkeypatch, form, way):
    monkeypatch.setenv("NATS_CREDS", form(CREDS))
    value = form(CREDS) if way == "creds" else "NATS_CREDS"
    made = connect_options(link_of({way: value}))
    answer = made._make_credentials().resolve(None)
    assert answer["jwt"] == "eyJ0eXAiOiJKV1QifQ.e30.c2ln"
    assert SEED not in repr(made)


@pytest.mark.parametrize("form", [str, encoded])
@pytest.mark.parametrize("way", ["nkeySeed", "nkeySeedEnv"])
def test_a_seed_may_be_a_text(monkeypatch, form, way):
    pytest.importorskip("nkeys", reason="the extra dev; make test installs it")
    monkeypatch.setenv("NATS_SEED", form(SEED))
    value = form(SEED) if way == "nkeySeed" else "NATS_SEED"
    answer = connect_options(link_of({way: value}))._make_credentials().resolve("nonce")
    assert answer["nkey"].startswith("U")


def test_a_seed_that_was_replaced_counts_at_the_next_connection(tmp_path):
    pytest.importorskip("nkeys", reason="the extra dev; make test installs it")
    file = tmp_path / "seed"
    file.write_text(SEED + "\n")
    made = connect_options(link_of({"nkeySeedFile": str(file)}))._make_credentials()
    before = made.resolve("nonce")["nkey"]
    other = "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY"
    file.write_text(other)
    assert made.resolve("nonce")["nkey"] != before


@pytest.mark.parametrize("option", ["passwordEnv", "tokenEnv", "credsEnv", "nkeySeedEnv"])
def test_a_variable_that_is_not_there_is_named(option):
    given = {option: "NO_SUCH_VARIABLE"}
    if option == "passwordEnv":
        given["user"] = "u"
    with pytest.raises(SparkOptionError, match="NO_SUCH_VARIABLE") as caught:
        connect_options(link_of(given))
    assert caught.value.code == "JETSYNC_MISSING_OPTION"


def test_a_variable_that_is_no_base64_is_named(monkeypatch):
    monkeypatch.setenv("NATS_TOKEN", "base64:???")
    with pytest.raises(SparkOptionError, match="tokenEnv"):
        connect_options(link_of({"tokenEnv": "NATS_TOKEN"}))


def test_a_password_is_taken_as_it_is():
    made = connect_options(link_of({"user": "u", "password": "base64:x"}))._make_credentials()
    assert made.resolve(None)["pass"] == "base64:x"


@pytest.mark.parametrize(
    "both", [("creds", "credsEnv"), ("credsFile", "nkeySeed"), ("token", "nkeySeedEnv")]
)
def test_two_ways_to_log_in_exclude_each_other(both, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(SparkOptionError) as caught:
        link_of(dict.fromkeys(both, str(file)))
    assert caught.value.code == "JETSYNC_AUTH_CONFLICT"


def test_a_file_made_of_a_variable_holds_its_text(monkeypatch):
    monkeypatch.setenv("PEM", encoded("a certificate\n"))
    path = secret_file("PEM", "tlsCaEnv")
    assert path is not None
    with open(path) as file:
        assert file.read() == "a certificate\n"
    assert secret_file(None, "tlsCaEnv") is None


def test_no_secret_shows_in_the_options(monkeypatch):
    given = {
        "stream": "S",
        "servers": "nats://me:hunter2@a:4222,nats://token@b:4222,c:4222",
        "creds": "hunter2",
    }
    for options in (ReadOptions.parse(given, streaming=True), link_of({"token": "hunter2"})):
        assert "hunter2" not in repr(options)
    assert "token@b" not in repr(ReadOptions.parse(given, streaming=True))
    assert isinstance(link_of({}), LinkOptions)
