"""Contexts and environment variables, as the nats command has them, open real connections."""

from __future__ import annotations

import base64
import json
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import nkeys as signing
import pytest

import jetsync
from jetsync.client.contexts import fields_of_context
from jetsync.protocol.contexts import Context, ContextFolder
from jetsync.server import NatsServer
from tests.harness.accounts import Accounts

ALL_FIELDS = [
    "name", "description", "url", "socks_proxy", "token", "user", "password", "creds", "nkey",
    "cert", "key", "ca", "nsc", "jetstream_domain", "jetstream_api_prefix",
    "jetstream_event_prefix", "inbox_prefix", "user_jwt", "user_seed", "color_scheme", "tls_first",
    "windows_cert_store", "windows_cert_match_by", "windows_cert_match", "windows_ca_certs_match",
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The user's folder of contexts, empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith("NATS_"):
            monkeypatch.delenv(name)
    return ContextFolder()


def save(folder, name, **fields):
    folder.save(Context(name, fields))


def creds_file(path: Path, accounts: Accounts) -> Path:
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{accounts.user_jwt()}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{accounts.user.seed}\n------END USER NKEY SEED------\n"
    )
    path.chmod(0o600)
    return path


# --- the files ----------------------------------------------------------------------------------


def test_a_context_is_written_with_the_fields_of_the_nats_command_in_its_order(folder):
    save(folder, "prod", url="nats://a:4222", description="über", unknown={"kept": [1]})
    path = folder.root / "context" / "prod.json"
    written = json.loads(path.read_bytes())
    assert list(written) == [*ALL_FIELDS, "unknown"]
    assert (written["name"], written["url"]) == ("prod", "nats://a:4222")
    assert (written["tls_first"], written["windows_ca_certs_match"]) == (False, None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["prod.json"]
    again = folder.load("prod")
    folder.save(again)
    assert json.loads(path.read_bytes()) == written


def test_selecting_remembers_the_one_before(folder):
    for name in ("b", "a"):
        save(folder, name, url="nats://a")
    assert (folder.names(), folder.selected, folder.previous) == (["a", "b"], None, None)
    folder.select("a")
    folder.select("b")
    assert (folder.selected, folder.previous) == ("b", "a")
    assert (folder.root / "context.txt").read_text() == "b"
    with pytest.raises(jetsync.ConfigError, match="select another"):
        folder.delete("b")
    folder.delete("a")
    folder.delete("b")
    assert (folder.names(), folder.selected) == ([], None)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\\b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(folder, name):
    with pytest.raises(jetsync.ConfigError, match="name"):
        folder.load(name)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"url": 5}', b'{"tls_first": "yes"}', b"\xff\xfe"]
)
def test_a_file_that_is_no_context_is_a_config_error_without_its_content(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(jetsync.ConfigError, match="broken"):
        jetsync.connect(context=path)


def test_what_is_missing_is_named(folder):
    save(folder, "there", url="nats://a")
    with pytest.raises(jetsync.ConfigError, match="known: there"):
        jetsync.ConnectOptions.from_context("absent")
    with pytest.raises(jetsync.ConfigError, match="no context is selected"):
        jetsync.ConnectOptions.from_context()
    (folder.root / "context" / "win.json").write_text('{"windows_cert_store": "user"}')
    with pytest.raises(jetsync.ConfigError, match="Windows"):
        jetsync.ConnectOptions.from_context("win")


# --- signing in ---------------------------------------------------------------------------------


def test_each_way_to_sign_in_opens_a_connection(folder, tmp_path, monkeypatch):
    accounts = Accounts()
    creds = creds_file(tmp_path / "me.creds", accounts)
    monkeypatch.setenv("CREDS_FOLDER", str(tmp_path))
    monkeypatch.setenv("CREDS_CONTENT", creds.read_text())
    data = "data:;base64," + base64.b64encode(creds.read_bytes()).decode()
    by_jwt = [
        {"creds": "$CREDS_FOLDER/me.creds"},
        {"creds": f"file://{creds}"},
        {"creds": "env://CREDS_CONTENT"},
        {"creds": data},
        {"user_jwt": accounts.user_jwt(), "user_seed": accounts.user.seed},
    ]
    with NatsServer(config=accounts.config, jetstream=False) as server:
        for fields in by_jwt:
            save(folder, "c", url=server.url, **fields)
            with jetsync.connect(context="c") as nc:
                assert nc.is_connected
            assert accounts.user.seed not in repr(nc.options)
    seed = tmp_path / "user.nk"
    seed.write_text(f"-----BEGIN USER NKEY SEED-----\n{accounts.user.seed}\n------END------\n")
    users = (
        "authorization { users: ["
        f'{{ nkey: "{accounts.user.public}" }}, {{ user: "joe", password: "pw" }}] }}'
    )
    monkeypatch.setenv("JOES_PASSWORD", "pw\n")
    with NatsServer(config=users, jetstream=False) as server:
        for fields in (
            {"nkey": str(seed)},
            {"user": "joe", "password": "pw"},
            {"user": "joe", "password": "env://JOES_PASSWORD"},
            # The first that is set counts, as for the nats command.
            {"user": "joe", "password": "pw", "token": "other", "creds": "/no/such/file"},
        ):
            save(folder, "c", url=server.url, **fields)
            jetsync.connect(context="c").close()
    with NatsServer(config='authorization { token: "t0" }', jetstream=False) as server:
        save(folder, "c", url=server.url, token="t0")
        jetsync.connect(context="c").close()


def test_keywords_win_and_replace_the_whole_sign_in(folder):
    with NatsServer(config='authorization { token: "t0" }', jetstream=False) as server:
        save(folder, "c", url="nats://127.0.0.1:1", user="joe", password="pw", inbox_prefix="_I.me")
        with jetsync.connect(server.url, context="c", token="t0", name="mine") as nc:
            assert (nc.options.name, nc.options.inbox_prefix) == ("mine", "_I.me")


def test_options_that_a_context_does_not_hold_are_keywords_beside_it(folder):
    save(folder, "c", url="nats://a", inbox_prefix="_I.me")
    options = jetsync.ConnectOptions.from_context("c", max_control_line=16384)
    assert (options.max_control_line, options.inbox_prefix) == (16384, "_I.me")
    with NatsServer(config={"max_control_line": 16384}, jetstream=False) as server:
        with jetsync.connect(server.url, context="c", max_control_line=16384) as nc:
            nc.publish("s" * 9000)
            nc.flush()
        with jetsync.connect(server.url, context="c") as nc, pytest.raises(jetsync.ConfigError):
            nc.publish("s" * 9000)


def test_jetstream_of_another_domain_and_the_other_fields(folder, certificates):
    with NatsServer(config='jetstream { domain: "edge" }') as server:
        save(folder, "c", url=server.url, jetstream_domain="edge")
        with jetsync.connect(context="c") as nc:
            assert nc.jetstream().account_info(timeout=20).domain == "edge"
            with pytest.raises(jetsync.JetStreamNotEnabledError):
                nc.jetstream(domain="other").account_info(timeout=1)
    fields = {"ca": certificates.ca, "tls_first": True, "socks_proxy": "socks5://gate:1"}
    (folder.root / "context" / "t.json").write_text(
        json.dumps(
            {"url": "nats://a:1,nats://b:2", **{k: str(v) for k, v in fields.items()}}
        ).replace('"True"', "true")
    )
    options = jetsync.ConnectOptions.from_context("t")
    assert [url.netloc for url in options.server_urls()] == ["a:1", "b:2"]
    assert options.tls == jetsync.TLSConfig(ca_file=str(certificates.ca))
    assert (options.tls_handshake_first, options.proxy) == (True, "socks5://gate:1")


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"url": "nats://a:1"}, {"servers": "nats://a:1"}),
        ({"token": "t"}, {"token": "t"}),
        ({"user": "u"}, {"user": "u"}),
        ({"user": "u", "password": "p"}, {"user": "u", "password": "p"}),
        ({"creds": "/me.creds"}, {"credentials": "/me.creds"}),
        ({"user_jwt": "j", "user_seed": "s"}, {"jwt": "j", "nkey_seed": "s"}),
        ({"user_jwt": "j"}, {"jwt": "j"}),
        (
            {"ca": "/ca", "cert": "/cert", "key": "/key"},
            {"tls": jetsync.TLSConfig(ca_file="/ca", cert_file="/cert", key_file="/key")},
        ),
        ({"tls_first": True}, {"tls_handshake_first": True}),
        ({"inbox_prefix": "_I"}, {"inbox_prefix": "_I"}),
        ({"jetstream_domain": "hub"}, {"jetstream_domain": "hub"}),
        ({"jetstream_api_prefix": "$JS.x.API"}, {"jetstream_api_prefix": "$JS.x.API"}),
        ({"socks_proxy": "socks5://p:1"}, {"proxy": "socks5://p:1"}),
        ({"description": "d", "color_scheme": "red", "jetstream_event_prefix": "e"}, {}),
    ],
)
def test_each_field_becomes_its_option_and_no_other(fields, options):
    assert fields_of_context(Context("c", fields)) == options


def test_the_first_way_to_sign_in_that_is_set_is_used(tmp_path):
    """In the order of the nats command, whatever else is set."""
    seed = tmp_path / "seed"
    seed.write_text("SU...")
    fields = {
        "user": "u",
        "creds": "/c",
        "nkey": str(seed),
        "user_jwt": "j",
        "token": "t",
    }
    found = []
    while fields:
        found.append(sorted(fields_of_context(Context("c", fields))))
        fields.pop(next(iter(fields)))
    assert found == [["user"], ["credentials"], ["nkey_seed"], ["jwt"], ["token"]]


def test_programs_are_started_only_with_leave(folder, tmp_path, monkeypatch):
    bin = tmp_path / "bin"
    bin.mkdir()
    for name, answer in (
        ("op", "t0"),
        ("nsc", json.dumps({"user_creds": "x.creds", "operator": {"service": ["nats://s:1"]}})),
    ):
        program = bin / name
        program.write_text(f"#!{sys.executable}\nprint({answer!r})\n")
        program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    save(folder, "op", url="nats://a", token="op://vault/item/token")
    save(folder, "nsc", nsc="nsc://o/a/u")
    for name in ("op", "nsc"):
        with pytest.raises(jetsync.ConfigError, match="run_commands"):
            jetsync.ConnectOptions.from_context(name)
    token = jetsync.ConnectOptions.from_context("op", run_commands=True).token
    assert callable(token)
    assert token() == "t0"
    options = jetsync.ConnectOptions.from_context("nsc", run_commands=True)
    assert (options.credentials, options.servers) == ("x.creds", "nats://s:1")


def test_equal_contexts_give_equal_options_which_pickle(folder, server, monkeypatch):
    monkeypatch.setenv("TOKEN", "t")
    save(folder, "c", url=server.url, token="env://TOKEN")
    first, second = (jetsync.ConnectOptions.from_context("c") for _ in range(2))
    assert first == second == pickle.loads(pickle.dumps(first))
    assert hash(first) == hash(second)
    one, two = (jetsync.shared_connection(context="c") for _ in range(2))
    assert one is two
    one.close()


# --- the environment ----------------------------------------------------------------------------


def test_variables_win_over_the_context_they_name(folder):
    save(folder, "c", url="nats://ctx:1", user="joe", password="pw", inbox_prefix="_I")
    read = jetsync.ConnectOptions.from_env
    options = read({"NATS_CONTEXT": "c"})
    assert (options.servers, options.user, options.inbox_prefix) == ("nats://ctx:1", "joe", "_I")
    options = read({"NATS_CONTEXT": "c", "NATS_URL": "nats://env:2", "NATS_TOKEN": "t"})
    assert (options.servers, options.user, options.token) == ("nats://env:2", None, "t")
    assert read({"NATS_USER": "t"}).token == "t"  # alone, a user is a token
    options = read({"NATS_USER": "u", "NATS_PASSWORD": "p"}, name="mine", token=None)
    assert (options.user, options.password, options.name) == ("u", "p", "mine")
    assert read({}) == jetsync.ConnectOptions()


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5.0), ("1m30s", 90.0), ("250ms", 0.25), ("2.5", 2.5)]
)
def test_the_timeout_is_a_duration_as_go_writes_it(text, seconds):
    options = jetsync.ConnectOptions.from_env({"NATS_TIMEOUT": text})
    assert options.timeout == pytest.approx(seconds)


def test_a_timeout_that_is_none_is_refused():
    with pytest.raises(jetsync.ConfigError, match="NATS_TIMEOUT"):
        jetsync.ConnectOptions.from_env({"NATS_TIMEOUT": "soon"})


def test_connect_itself_reads_no_variable(server, monkeypatch):
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    monkeypatch.setenv("NATS_TOKEN", "t")
    jetsync.connect(server.url).close()


# --- a key that stays elsewhere -------------------------------------------------------------------

SIGNER = """
import sys, nkeys
pair = nkeys.from_seed(sys.argv[1].encode())
sys.stdout.buffer.write(pair.sign(sys.stdin.buffer.read()))
"""


def test_another_process_signs_and_the_key_never_comes_here():
    accounts = Accounts()

    def sign(nonce: bytes) -> bytes:
        command = [sys.executable, "-c", SIGNER, accounts.user.seed]
        return subprocess.run(command, input=nonce, capture_output=True, check=True).stdout

    keys = f'authorization {{ users: [{{ nkey: "{accounts.user.public}" }}] }}'
    with NatsServer(config=keys, jetstream=False) as server:
        jetsync.connect(
            server.url, nkey=accounts.user.public, sign=sign, connect_timeout=20
        ).close()
    with NatsServer(config=accounts.config, jetstream=False) as server:
        jetsync.connect(server.url, jwt=accounts.user_jwt(), sign=sign, connect_timeout=20).close()


def test_a_signer_that_fails_is_an_authorization_error_of_the_attempt():
    accounts = Accounts()
    keys = f'authorization {{ users: [{{ nkey: "{accounts.user.public}" }}] }}'

    def broken(nonce: bytes) -> bytes:
        raise OSError("the token is unplugged")

    def short(nonce: bytes) -> bytes:
        return b"x"

    def wrong(nonce: bytes) -> bytes:
        other = signing.from_seed(Accounts().user.seed.encode())
        return bytes(other.sign(nonce))

    with NatsServer(config=keys, jetstream=False) as server:
        for sign, word in ((broken, "unplugged"), (short, "64 bytes"), (wrong, "refused")):
            with pytest.raises(jetsync.AuthorizationError, match=word):
                jetsync.connect(server.url, nkey=accounts.user.public, sign=sign)


@pytest.mark.parametrize(
    "options",
    [
        {"sign": bytes},
        {"nkey": "U"},
        {"sign": bytes, "nkey": "U", "nkey_seed": "S"},
        {"sign": 5, "nkey": "U"},
        {"sign": bytes, "nkey": "U", "token": "t"},
    ],
)
def test_halves_of_a_signature_are_refused(options):
    with pytest.raises(jetsync.ConfigError):
        jetsync.ConnectOptions(**options)
