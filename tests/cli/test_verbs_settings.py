"""Contexts, failures to connect and the account, against a real server."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from jetsync.cli.events import EventLog
from jetsync.cli.reference import reference
from jetsync.server import NatsServer
from tests.cli.run_command import Done, clean_environment, run


def test_contexts_are_kept_and_used(url, tmp_path: Path) -> None:
    def at_home(*arguments: str) -> Done:
        return run(*arguments, XDG_CONFIG_HOME=str(tmp_path))

    added = at_home("context", "add", "here", "-s", url, "--token", "s3cret", "--select")
    assert added.code == 0
    assert "s3cret" not in added.out
    assert json.loads((tmp_path / "nats/context/here.json").read_text())["token"] == "s3cret"
    assert at_home("rtt", "--count", "1").code == 0
    assert at_home("context", "copy", "here", "there").code == 0
    assert at_home("context", "edit", "there", "-s", "nats://127.0.0.1:1").code == 0
    listed = at_home("context", "ls", "--json").json
    assert [(one["name"], one["selected"]) for one in listed] == [("here", True), ("there", False)]
    checked = at_home("context", "validate", "--connect", "--json")
    assert (checked.code, [one["ok"] for one in checked.json]) == (1, [True, False])
    assert at_home("context", "select", "there").code == 0
    assert at_home("context", "rm", "here", "-f").code == 0
    for verb in ("info", "select", "rm", "edit"):
        gone = at_home("context", verb, "here", *(("-f",) if verb == "rm" else ()), "--json")
        assert (gone.code, "no context 'here'" in gone.json["error"]["message"]) == (3, True), verb
    assert at_home("context", "copy", "here", "again").code == 3
    assert at_home("context", "info", "a/b").code == 2
    assert at_home("rtt", "--context", "here").code == 2


def test_a_context_is_saved_as_the_nats_command_saves_it(tmp_path: Path) -> None:
    """``add`` changes what is given of a context that there is and copies ``--context`` into one
    that is new; a user without a password is a token."""

    def at_home(*arguments: str) -> int:
        return run("context", *arguments, XDG_CONFIG_HOME=str(tmp_path)).code

    def saved(name: str) -> dict[str, object]:
        fields = json.loads((tmp_path / f"nats/context/{name}.json").read_text())
        return {key: value for key, value in fields.items() if value and key != "name"}

    assert at_home("add", "a", "-s", "nats://a", "--user", "ann", "--password", "pw") == 0
    assert saved("a") == {"url": "nats://a", "user": "ann", "password": "pw"}
    assert at_home("add", "a", "--description", "ours", "--user", "bob") == 0
    assert saved("a") == {"url": "nats://a", "user": "bob", "password": "pw", "description": "ours"}
    assert at_home("add", "b", "--context", "a", "-s", "nats://b", "--select") == 0
    assert saved("b") == {**saved("a"), "url": "nats://b"}
    assert (tmp_path / "nats/context.txt").read_text() == "b"
    assert at_home("save", "c", "--user", "s3cret", "--nsc", "nsc://o/a/u") == 0
    assert saved("c") == {"token": "s3cret", "nsc": "nsc://o/a/u"}
    assert at_home("copy", "c", "d", "--description", "mine", "--select") == 0
    assert saved("d") == {**saved("c"), "description": "mine"}
    assert (tmp_path / "nats/context.txt").read_text() == "d"
    assert at_home("copy", "c", "d") == 1
    assert at_home("edit", "c", "--token", "t", "--select") == 0
    assert (saved("c")["token"], (tmp_path / "nats/context.txt").read_text()) == ("t", "c")
    assert at_home("edit", "c") == 2
    assert at_home("add", "e", "--context", "none") == 3


def test_a_context_is_changed_in_an_editor(tmp_path: Path) -> None:
    """What comes back is checked: a broken file is refused in one sentence, the old one stays."""
    kept = tmp_path / "nats/context/a.json"
    seen = tmp_path / "seen"

    def edit(script: str, *more: str) -> Done:
        program = tmp_path / "editor.py"
        program.write_text(f"import os, sys\npath = sys.argv[-1]\n{script}\n")
        editor = f"{sys.executable} '{program}' --wait"
        return run("context", "edit", "a", *more, XDG_CONFIG_HOME=str(tmp_path), EDITOR=editor)

    def written(text: str) -> str:
        return f"open(path, 'w').write({text!r})"

    assert run("context", "add", "a", "-s", "nats://a", XDG_CONFIG_HOME=str(tmp_path)).code == 0
    before = kept.read_bytes()
    look = f"open({str(seen)!r}, 'wb').write(open(path, 'rb').read()); "
    look += "assert os.stat(os.path.dirname(path)).st_mode & 0o77 == 0; "
    look += "assert os.path.basename(path) == 'a.json'"
    unchanged = edit(look)
    assert (unchanged.code, seen.read_bytes()) == (1, before), unchanged.err
    assert "nothing was changed" in unchanged.err
    for broken, why in (
        ('{"url": "nats://b",}', "is not JSON (line 1, column"),
        ("[]", "is not a JSON object"),
        ('{"url": 7}', "url of context 'a' must be a text"),
        ('{"url": "mqtt://b"}', "mqtt"),
        ("", "is not JSON"),
    ):
        refused = edit(written(broken))
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
        assert refused.err.startswith("jetsync: context a stays as it was: "), refused.err
        assert why in refused.err
        assert kept.read_bytes() == before
    for ended in (written("{}") + "; sys.exit(3)", "os.remove(path)"):
        refused = edit(ended)
        assert (refused.code, kept.read_bytes()) == (1, before), refused.err
        assert "nothing was changed" in refused.err
    done = edit(written('{"name": "z", "url": "nats://b", "ours": 1}'), "--json")
    assert (done.code, done.json["url"], done.json["name"]) == (0, "nats://b", "a")
    assert json.loads(kept.read_text())["ours"] == 1
    flagged = edit("sys.exit(9)", "-s", "nats://c", "--json")  # flags open no editor
    assert (flagged.code, flagged.json["url"]) == (0, "nats://c")
    kept.write_text("{broken")
    assert edit(written('{"url": "nats://d"}')).code == 0
    home = str(tmp_path)
    for editor, visual, why in (
        ("", "", "set $EDITOR"),
        ("/no/such/editor", "", "cannot be started"),
        (f"{sys.executable} {tmp_path / 'editor.py'}", "/no/such/editor", "cannot be started"),
    ):
        refused = run("context", "edit", "a", XDG_CONFIG_HOME=home, EDITOR=editor, VISUAL=visual)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
        assert why in refused.err
    assert json.loads(kept.read_text())["url"] == "nats://d"


def test_a_code_without_a_class_is_not_found() -> None:
    assert run("errors", "10059", "--json").json[0]["type"] == "StreamNotFoundError"
    assert run("errors", "1").code == 3


def test_no_command_shows_the_secrets_of_a_context(tmp_path: Path) -> None:
    def at_home(*arguments: str) -> str:
        return run("context", *arguments, XDG_CONFIG_HOME=str(tmp_path)).out

    def shown(output: str) -> None:
        assert output
        assert "s3cret" not in output
        assert "czNjcmV0" not in output

    servers = "nats://ann:s3cret@a.example,nats://s3cret@b.example:1,c.example"
    proxy = "socks5://ann:s3cret@proxy.example:1080"
    creds = "data:text/plain;base64,czNjcmV0"
    given = ("-s", servers, "--socks-proxy", proxy, "--creds", creds)
    shown(at_home("add", "one", *given))
    shown(at_home("edit", "one", "--description", "x"))
    shown(at_home("copy", "one", "two"))
    for json_ in ((), ("--json",)):
        shown(at_home("info", "one", *json_))
        shown(at_home("ls", *json_))
    found = json.loads(at_home("info", "one", "--json"))
    assert found["url"] == (
        "nats://ann:***@a.example:4222,nats://***@b.example:1,nats://c.example:4222"
    )
    assert (found["socks_proxy"], found["creds"]) == ("socks5://***@proxy.example:1080", "***")
    kept = tmp_path / "nats/context/odd.json"
    kept.write_text(json.dumps({"url": "mqtt://ann:s3cret@h:1", "socks_proxy": "ann:s3cret@p:2"}))
    shown(at_home("ls"))
    found = json.loads(at_home("info", "odd", "--json"))
    assert (found["url"], found["socks_proxy"]) == ("***@h:1", "***@p:2")


def test_without_a_server_the_code_is_4() -> None:
    done = run("account", "-s", "nats://127.0.0.1:1", "--json")
    assert done.code == 4
    assert done.json["error"]["type"] == "NoServersError"
    assert done.err.count("\n") == 1


def test_the_protocol_is_shown_where_it_is_wanted(url) -> None:
    shown = {}
    for flags in ([], ["--trace"]):
        words = ["pub", "traced.here", "hello", *flags]
        with clean_environment({"NATS_URL": url}):
            done = subprocess.run(
                [sys.executable, "-m", "jetsync", *words],
                capture_output=True,
                text=True,
                check=True,
            )
        shown[bool(flags)] = done.stderr
    assert "->> b'PUB traced.here 5" in shown[True]
    assert "->>" not in shown[False]


def test_the_account_and_the_round_trip_are_shown(url, jet) -> None:
    told = jet("account", "--json").json
    assert told["connection"]["rtt"] > 0
    assert told["jetstream"]["limits"]["max_streams"] == -1
    (measured,) = jet("rtt", "--count", "2", "--json").json
    assert 0 < measured["least"] <= measured["median"]


def test_what_the_permissions_forbid_is_a_failure_and_a_finding() -> None:
    config = """jetstream {}
        authorization { users = [ { user: r, password: r, permissions: {
            publish: ["$JS.API.INFO"], subscribe: ["_INBOX.>"] } } ] }"""
    with NatsServer(config=config) as server:
        flags = ("--server", server.url, "--user", "r", "--password", "r")
        for command in ("pub a x", "pub a x --js", "stream ls", "bench pub --msgs 50"):
            ended = run(*command.split(), *flags)
            assert (ended.code, ended.out) == (1, "")
            (line,) = ended.err.splitlines()  # and no event that says the same
            assert "Permissions Violation" in line
        refused = run("stream", "ls", "--server", server.url, "--user", "r", "--password", "no")
        assert (refused.code, len(refused.err.splitlines())) == (4, 1)
        seen = run("doctor", "--json", *flags)
    assert seen.code == 1
    (finding,) = (one for one in seen.json if one["about"] == "permissions")
    assert "$JS.API.STREAM.LIST" in finding["text"]


class Logged:
    """A log of events whose moments pass when they are told to."""

    def __init__(self) -> None:
        self.err, self.due = io.StringIO(), list[Any]()
        with mock.patch("sys.stderr", self.err):
            self.log = EventLog(self.due.append)

    def happens(self, kind: str, text: str) -> None:
        record = logging.LogRecord("jetsync.connection", logging.WARNING, "", 0, text, (), None)
        record.nats_event = kind
        self.log.handle(record)

    @property
    def lines(self) -> list[str]:
        return self.err.getvalue().splitlines()


def test_an_event_that_no_call_raises_is_told_a_moment_later_and_once() -> None:
    logged = Logged()
    for _ in range(3):
        logged.happens("permission", "a reply was refused")
    assert logged.lines == []
    (moment,) = logged.due
    moment()
    assert logged.lines == ["jetsync: a reply was refused"]
    logged.happens("disconnected", "the link is gone")
    assert logged.lines[1:] == ["jetsync: the link is gone"]
    logged.happens("error", "which the command ends with")
    logged.log.drop()
    logged.log.tell()
    assert len(logged.lines) == 2


def test_the_reference_on_the_page_is_that_of_the_commands() -> None:
    page = Path(__file__).parents[2] / "docs/guide/command-line.md"
    assert page.read_text().partition("<!-- reference -->\n")[2] == reference()


def test_a_file_with_a_key_that_is_not_there_is_named(jet, tmp_path: Path) -> None:
    done = jet("rtt", "--nkey", str(tmp_path / "absent.nk"))
    assert (done.code, done.out) == (2, "")
    assert str(tmp_path / "absent.nk") in done.err


def test_a_link_to_a_store_that_is_not_there_is_refused(nc, jet) -> None:
    js = nc.jetstream()
    store = js.create_object_store(bucket="CLILINKS", storage="memory")
    try:
        assert jet("object", "link", "CLILINKS", "new", "CLILINKS").code == 0
        absent = jet("object", "link", "CLILINKS", "other", "absent")
        assert (absent.code, "no bucket 'absent'" in absent.err) == (3, True)
        assert [info.name for info in store.list()] == ["new"]
    finally:
        js.delete_object_store("CLILINKS")


def test_what_asks_nothing_takes_the_flag_of_the_nats_command(jet, stream) -> None:
    stream.create_consumer(durable_name="c")
    for words in (["pause", stream.name, "c", "1h"], ["resume", stream.name, "c"]):
        for force in ("--force", "-f"):
            assert jet("consumer", *words, force).code == 0
    assert jet("consumer", "unpin", stream.name, "c", "workers", "--force").code == 3


def test_an_error_without_a_code_of_the_server_has_none(jet) -> None:
    done = jet("pub", "no.stream.takes.this", "x", "--js", "--timeout", "1s", "--json")
    assert done.json["error"] == {
        "type": "NotStoredError",
        "message": "'no.stream.takes.this': no stream takes messages on it",
        "err_code": None,
    }


def test_an_object_is_put_with_all_that_describes_it(nc, jet) -> None:
    store = nc.jetstream().create_object_store(bucket="CLIMETA", storage="memory")
    try:
        flags = ("--description", "a text", "-H", "A:1", "-H", "A:2", "--chunk-size", "4")
        done = jet("object", "put", "CLIMETA", "-", "--name", "n", *flags, stdin=b"0123456789")
        info = store.info("n")
        assert (done.code, info.chunks, info.description) == (0, 3, "a text")
        assert (info.headers, store.get_bytes("n")) == ({"A": ["1", "2"]}, b"0123456789")
    finally:
        nc.jetstream().delete_object_store("CLIMETA")


def test_an_object_store_is_changed_in_what_a_flag_names(nc, jet) -> None:
    js = nc.jetstream()
    given = ("--ttl", "1h", "--metadata", "owner=me", "--storage", "m")
    try:
        assert jet("object", "add", "CLISTORE", *given).code == 0
        edited = jet("object", "edit", "CLISTORE", "--description", "files", "--compress", "-j")
        assert (edited.code, edited.err) == (0, "")
        config = js.object_store("CLISTORE").status().config
        assert (config.description, config.ttl, config.compression) == ("files", 3600, True)
        assert (config.metadata["owner"], config.storage) == ("me", "memory")
        assert edited.json["config"]["description"] == "files"
        assert jet("object", "edit", "CLISTORE", "--no-compress").code == 0
        assert not js.object_store("CLISTORE").status().config.compression
    finally:
        js.delete_object_store("CLISTORE")
    assert jet("object", "edit", "CLISTORE", "--ttl", "1h").code == 3


def test_what_describes_an_object_is_changed(nc, jet) -> None:
    js = nc.jetstream()
    store = js.create_object_store(bucket="CLIOBJECT", storage="memory")
    try:
        store.put("n", b"data")
        edit = ("object", "edit", "CLIOBJECT", "n")
        assert jet(*edit, "--description", "a text", "--metadata", "a=b").code == 0
        done = jet(*edit, "--rename", "m", "-H", "A:1", "-H", "A:2")
        assert (done.code, "Object m of store CLIOBJECT" in done.out) == (0, True)
        info = store.info("m")
        assert (info.description, info.metadata) == ("a text", {"a": "b"})
        assert (info.headers, store.get_bytes("m")) == ({"A": ["1", "2"]}, b"data")
        assert jet(*edit, "--description", "x").code == 3, "it has another name now"
    finally:
        js.delete_object_store("CLIOBJECT")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("FILES",), "nothing to change"),
        (("FILES", "n"), "nothing to change"),
        (("FILES", "-H", "A:1"), "give its NAME"),
        (("FILES", "--rename", "m"), "give its NAME"),
        (("FILES", "n", "--ttl", "1h"), "are those of a store"),
    ],
)
def test_an_edit_of_nothing_or_of_something_else_is_refused_unconnected(words, said) -> None:
    done = run("object", "edit", *words, NATS_URL="nats://127.0.0.1:1")
    assert (done.code, said in done.err) == (2, True), done.err


def test_a_watch_begins_with_a_revision_and_leaves_deletions_out(nc, jet) -> None:
    js = nc.jetstream()
    kv = js.create_key_value(bucket="CLIWATCH", history=5, limit_marker_ttl=5, storage="memory")
    try:
        for value in (b"1", b"2"):
            kv.put("a", value)
        kv.delete("a")
        kv.put("b", b"3")
        line = ("kv", "watch", "CLIWATCH", "--revision", "2", "--json", "--count")
        seen = [(one["revision"], one["operation"]) for one in jet(*line, "3").lines]
        assert seen == [(2, "PUT"), (3, "DEL"), (4, "PUT")]
        seen = [
            (one["revision"], one["operation"]) for one in jet(*line, "2", "--no-deletes").lines
        ]
        assert seen == [(2, "PUT"), (4, "PUT")]
        assert jet("kv", "purge", "CLIWATCH", "a", "--ttl", "9s", "--force").code == 0
        assert [one.ttl for one in kv.history("a")] == [9.0]
    finally:
        js.delete_key_value("CLIWATCH")


@pytest.mark.parametrize(("flag", "ack_pending"), [("--nak", 0), ("--term", 0), ("--no-ack", 1)])
def test_the_next_message_is_settled_as_asked(nc, jet, stream, flag, ack_pending) -> None:
    consumer = stream.create_consumer(durable_name="c", ack_wait=30)
    nc.jetstream().publish(f"{stream.name}.a", b"x")
    assert jet("consumer", "next", stream.name, "c", flag).code == 0
    nc.flush()
    if flag == "--nak":
        assert consumer.next(timeout=10).metadata.num_delivered == 2
    else:
        assert consumer.info().num_ack_pending == ack_pending
