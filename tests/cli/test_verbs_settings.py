"""Contexts, failures to connect, account, benchmark and completion, against a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jetsync.cli.completion import complete, typed_in
from jetsync.cli.reference import reference
from jetsync.server import NatsServer
from tests.cli.run_command import Done, run
from tests.harness.waiting import wait_until


def test_contexts_are_kept_and_used(url, tmp_path: Path) -> None:
    def at_home(*arguments: str) -> Done:
        return run(*arguments, XDG_CONFIG_HOME=str(tmp_path))

    added = at_home("context", "add", "here", "-s", url, "--token", "s3cret", "--select")
    assert added.code == 0
    assert "s3cret" not in added.out
    assert json.loads((tmp_path / "nats/context/here.json").read_text())["token"] == "s3cret"
    assert at_home("rtt", "--count", "1").code == 0
    assert at_home("context", "add", "here").code == 1
    assert at_home("context", "copy", "here", "there").code == 0
    assert at_home("context", "edit", "there", "-s", "nats://127.0.0.1:1").code == 0
    listed = at_home("context", "ls", "--json").json
    assert [(one["name"], one["selected"]) for one in listed] == [("here", True), ("there", False)]
    checked = at_home("context", "validate", "--connect", "--json")
    assert (checked.code, [one["ok"] for one in checked.json]) == (1, [True, False])
    assert at_home("context", "select", "there").code == 0
    assert at_home("context", "rm", "here", "-f").code == 0
    assert at_home("context", "info", "here").code == 2


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


def test_the_account_and_the_round_trip_are_shown(url, jet) -> None:
    told = jet("account", "--json").json
    assert told["connection"]["rtt"] > 0
    assert told["jetstream"]["limits"]["max_streams"] == -1
    (measured,) = jet("rtt", "--count", "2", "--json").json
    assert 0 < measured["least"] <= measured["median"]


@pytest.mark.parametrize(
    "kind",
    ["pub", "sub", "req", "js-pub", "js-pub --sync", "js-fetch", "js-consume", "kv"],
)
def test_a_benchmark_moves_all_messages_and_leaves_nothing(nc, jet, kind: str) -> None:
    before = set(nc.jetstream().stream_names())
    stored = [] if kind in ("pub", "sub", "req") else ["--storage", "memory"]
    done = jet("bench", *kind.split(), "--msgs", "51", "--clients", "2", "--json", *stored)
    assert done.code == 0, done.err
    assert (done.json["messages"], done.json["clients"]) == (51, 2)
    assert done.json["msgs_per_second"] > 0
    assert set(nc.jetstream().stream_names()) == before


def test_what_the_permissions_forbid_is_a_failure_and_a_finding() -> None:
    config = """jetstream {}
        authorization { users = [ { user: r, password: r, permissions: {
            publish: ["$JS.API.INFO"], subscribe: ["_INBOX.>"] } } ] }"""
    with NatsServer(config=config) as server:
        flags = ("--server", server.url, "--user", "r", "--password", "r")
        for command in (["pub", "a", "x"], ["pub", "a", "x", "--js"], ["stream", "ls"]):
            ended = run(*command, *flags)
            assert (ended.code, ended.out) == (1, "")
            assert "Permissions Violation" in ended.err
        seen = run("doctor", "--json", *flags)
    assert seen.code == 1
    (finding,) = (one for one in seen.json if one["about"] == "permissions")
    assert "$JS.API.STREAM.LIST" in finding["text"]


def test_words_are_completed_by_what_may_stand_there() -> None:
    def names(kind: str, before: list[str]) -> list[str]:
        return [f"{kind}-{'-'.join(before)}"]

    assert complete(["str"], names) == ["stream"]
    assert complete(["stream", "in"], names) == ["info"]
    assert complete(["stream", "info", ""], names) == ["stream-"]
    assert complete(["--server", "x", "con", "info", "S", ""], names) == ["consumer-S"]
    assert complete(["stream", "add", "S", "--storage", "m"], names) == ["memory"]
    assert complete(["sub", "--stream", ""], names) == ["stream-"]
    assert "--max-age" in complete(["stream", "add", "S", "--max-"], names)
    assert complete(["kv", "get", "B", "K", ""], names) == []


def test_names_for_completion_come_from_the_server_and_failures_are_silent(stream, url) -> None:
    typed = ("--", "-s", url, "stream", "info", stream.name[:5])
    # The server gets half a second only, which a busy machine may need for itself.
    wait_until(lambda: stream.name in run("completion", "words", *typed).out.split(), timeout=20)
    failed = run("completion", "words", "--", "-s", "nats://127.0.0.1:1", "stream", "info", "")
    assert (failed.code, failed.out, failed.err) == (0, "", "")
    for shell in ("bash", "zsh", "fish"):
        assert "completion words" in run("completion", shell).out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("jetsync ", [""]),
        ("jetsync str", ["str"]),
        ("jetsync -s nats://a:4222 stream info ", ["-s", "nats://a:4222", "stream", "info", ""]),
        ("jetsync pub 'a b", ["pub", "a b"]),
        ("jetsync pub \"it's", ["pub", "it's"]),
        ("jetsync --server=nats://a s", ["--server=nats://a", "s"]),
    ],
)
def test_a_line_is_cut_into_words_as_the_shell_does(line: str, words: list[str]) -> None:
    assert typed_in(line) == words


def test_bash_completes_names_beside_an_address_that_it_cuts_into_pieces(stream, url) -> None:
    lines = ["con", f"--server={url} stream info {stream.name[:5]}", "--server=nats"]
    asked = "\n".join(
        f"COMP_LINE='jetsync {line}'; COMP_POINT=${{#COMP_LINE}}; _jetsync; echo ${{COMPREPLY[*]}}"
        for line in lines
    )
    script = f"""jetsync() {{ {sys.executable} -m jetsync "$@"; }}
        COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
        eval "$(jetsync completion bash)"
        {asked}"""

    def completed() -> list[str]:
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        return done.stdout.splitlines()

    # The server gets half a second only, which a busy machine may need for itself.
    wait_until(lambda: completed() == ["consumer context", stream.name, ""], timeout=60)


def test_the_reference_on_the_page_is_that_of_the_commands() -> None:
    page = Path(__file__).parents[2] / "docs/guide/command-line.md"
    assert page.read_text().partition("<!-- reference -->\n")[2] == reference()
