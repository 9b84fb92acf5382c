"""What all commands have in common: how they start, what they are told, and how they end."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from jetsync.cli.commands import WORDS
from jetsync.cli.flags import CONNECTION
from jetsync.cli.invocation import Invocation, connect_options
from jetsync.cli.output import Fields, Output, Table
from jetsync.cli.registry import build_parser
from jetsync.errors import APIError, ConfigError
from jetsync.protocol.contexts import Context, ContextFolder
from tests.cli.run_command import clean_environment, run

COMMANDS = [(word, command) for word in WORDS for command in word.commands()]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_a_start_loads_neither_client_nor_jetstream(arguments: list[str]) -> None:
    """The time to start is what is imported: the client alone takes longer than all of this."""
    code = (
        "import sys\nfrom jetsync.cli.main import main\n"
        f"try:\n main({arguments!r})\nexcept SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if m.startswith('jetsync.')), file=sys.stderr)\n"
        "print(sorted({'ssl', 'socket', 'logging', 'dataclasses'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ast.literal_eval(done.stderr.splitlines()[-1])
    rooms = {module.split(".")[1] for module in loaded}
    assert rooms <= {
        "_core",
        "_counted",
        "_printable",
        "_version",
        "cli",
        "errors",
        "headers",
    }
    words = {module.split(".")[2] for module in loaded if module.count(".") > 1}
    assert not {"demo", "server", "version"} & words


def test_the_help_of_a_command_imports_nothing_that_its_work_needs() -> None:
    """The declarations of all commands load no client and no library that takes long to import."""
    code = (
        "import sys\nfrom jetsync.cli.commands import WORDS\n"
        "from jetsync.cli.registry import build_parser\n"
        "for word in WORDS:\n word.commands()\n"
        "build_parser(WORDS, '0').parse_args(['stream', 'ls'])\n"
        "print(sorted(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ast.literal_eval(done.stdout)
    rooms = {name.split(".")[1] for name in loaded if name.startswith("jetsync.")}
    assert not {"client", "jetstream", "kv", "objectstore", "server", "services", "spark"} & rooms
    slow = {"argcomplete", "asyncio", "bz2", "email", "hashlib", "rich", "shutil", "socket", "ssl"}
    assert not (slow | {"subprocess", "textual"}) & set(loaded)


def test_the_package_itself_loads_no_room_until_a_name_of_it_is_used() -> None:
    code = (
        "import sys, jetsync\n"
        "before = {m.split('.')[1] for m in sys.modules if m.startswith('jetsync.')}\n"
        "jetsync.connect\n"
        "print(sorted(before), 'jetsync.client' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms = {"_core", "_counted", "_printable", "_version", "errors", "headers"}
    assert done.stdout.strip() == f"{sorted(rooms)} True"


@pytest.mark.parametrize(
    ("word", "command"), COMMANDS, ids=[f"{word.name}-{command.name}" for word, command in COMMANDS]
)
def test_each_command_says_what_it_does(word, command) -> None:
    names = [word.name] if word.name == command.name else [word.name, command.name]
    done = run(*names, "--help")
    assert done.code == 0
    assert f"usage: jetsync {' '.join(names)} " in done.out
    said = command.description or command.help
    assert said.lower()[:20] in " ".join(done.out.lower().split())
    assert command.example, "an example"
    shown = word.name if command.default else " ".join(names)
    assert f"jetsync {shown}" in command.example
    assert not command.help.endswith(".")


@pytest.mark.parametrize(
    ("word", "command"), COMMANDS, ids=[f"{word.name}-{command.name}" for word, command in COMMANDS]
)
def test_the_example_of_each_command_can_be_parsed(word, command) -> None:
    import shlex

    for line in command.example.splitlines():
        line = line.removeprefix('eval "$(').removesuffix(')"')
        told = shlex.split(line.partition(" | ")[0].partition(" > ")[0])[1:]
        assert build_parser(WORDS, "0").parse_args(told).run is command.run


def parsed(*arguments: str):
    return build_parser(WORDS, "0").parse_args([*arguments, "version"])


def options(*arguments: str, **environ: str):
    return connect_options(parsed(*arguments), environ)


def test_flags_win_over_variables_and_those_over_contexts(tmp_path: Path) -> None:
    with clean_environment({"XDG_CONFIG_HOME": str(tmp_path)}):
        folder = ContextFolder()
        folder.save(Context("far", {"url": "nats://far:1", "creds": str(tmp_path / "x.creds")}))
        folder.save(Context("near", {"url": "nats://near:1", "inbox_prefix": "_NEAR"}))
        folder.select("near")
        assert options().servers == "nats://near:1"
        assert options().inbox_prefix == "_NEAR"
        assert options("--no-context").servers == "nats://127.0.0.1:4222"
        assert options(NATS_URL="nats://env:1").servers == "nats://env:1"
        assert options(NATS_CONTEXT="far").credentials == str(tmp_path / "x.creds")
        assert options("--context", "near", NATS_CONTEXT="far").servers == "nats://near:1"
        told = options("-s", "nats://flag:1", NATS_URL="nats://env:1")
        assert (told.servers, told.inbox_prefix) == ("nats://flag:1", "_NEAR")
        # What signs in is replaced as a whole.
        signed = options("--token", "t", NATS_USER="u", NATS_PASSWORD="p", NATS_CONTEXT="far")
        assert (signed.token, signed.user, signed.credentials) == ("t", None, None)


def test_flags_become_options() -> None:
    found = options(
        *("--user", "u", "--password", "p", "--timeout", "250ms", "--js-domain", "hub"),
        *("--proxy", "http://127.0.0.1:3128", "--tlsfirst", "--connection-name", "me"),
    )
    assert (found.user, found.password, found.timeout, found.name) == ("u", "p", 0.25, "me")
    assert (found.jetstream_domain, found.tls_handshake_first) == ("hub", True)
    assert found.proxy == "http://127.0.0.1:3128"
    assert options("--user", "t").token == "t"
    assert options().name == "jetsync"


@pytest.mark.parametrize(
    "wrong",
    [
        ["--js-domain", "a", "--js-api-prefix", "b"],
        ["--context", "a", "--no-context"],
        ["--context", "no-such-context"],
        ["--timeout", "soon"],
    ],
)
def test_flags_that_make_no_sense_are_wrong_configuration(wrong: list[str]) -> None:
    with clean_environment({}), pytest.raises(ConfigError):
        options(*wrong)


def test_flags_stand_before_and_behind_the_command() -> None:
    assert run("--json", "version").json["jetsync"] == run("version", "--json").json["jetsync"]


def test_every_connection_flag_has_a_help_text() -> None:
    assert all(one.options["help"] for one in CONNECTION)


def test_a_table_is_aligned_and_its_numbers_end_below_each_other(capsys) -> None:
    table = Table(("NAME", ">COUNT"), [("a", 1), ("längër", 12_345), ("日本", True)])
    Output(color=False).show([], table)
    assert capsys.readouterr().out == (
        "NAME     COUNT\na            1\nlängër  12,345\n日本       yes\n"
    )
    Output(color=False).show([], Table(("NAME",), [], empty="no streams"))
    assert capsys.readouterr().out == "no streams\n"


def test_text_from_a_peer_cannot_steer_the_terminal(capsys) -> None:
    Output(color=False).show({}, Fields("a\x1b[2J", {"S": {"Name": "x\ny", "List": ["a\x07"]}}))
    assert capsys.readouterr().out == "a\\x1b[2J\n\nS\n  Name  x\\ny\n  List  a\\x07\n"


def test_colours_only_where_they_are_wanted(capsys) -> None:
    Output(color=True).show([], Table(("A",), [(1,)]))
    assert capsys.readouterr().out == "\x1b[1mA\x1b[0m\n1\n"
    with clean_environment({"NO_COLOR": "1"}):
        Output().show([], Table(("A",), [(1,)]))
    assert "\x1b" not in capsys.readouterr().out


def test_an_unknown_command_and_a_failure_end_with_their_codes(capsys) -> None:
    assert run("no-such").code == 2
    failed = run("server", "--port", "99999", "--json")
    assert failed.code == 2
    assert failed.err.startswith("jetsync: port must be between 0 and 65535")
    error = json.loads(failed.out)["error"]
    assert (error["type"], error["err_code"]) == ("ConfigError", None)
    assert "port must be" in error["message"]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["pub", "a", "b", "--js", "--ttk", "5s"], "jetsync pub"),
        (["pub", "a", "--ttk", "--", "b"], "jetsync pub"),
        (["stream", "info", "S", "--ttk"], "jetsync stream info"),
        (["stream", "info", "S", "more"], "jetsync stream info"),
    ],
)
def test_what_a_command_does_not_know_is_refused_in_one_sentence(words, command):
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("jetsync: unrecognized arguments: ")
    assert f"'{command} --help'" in line
    told = run("--json", *words)
    assert (told.code, told.err) == (2, done.err)
    about = json.loads(told.out)["error"]
    assert (about["type"], f"jetsync: {about['message']}") == ("UsageError", line)


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("s ls", "stream ls"),
        ("st del S -f", "stream rm S --force"),
        (
            "str new S --subjects a --allow-fast --defaults",
            "stream add S --subjects a --allow-fast-batch",
        ),
        ("c new S C --max-outstanding 5", "consumer add S C --max-pending 5"),
        ("pub a b --jetstream --schedule-at 10m", "pub a b --js --at 10m"),
        ("sub --stream S --start-sequence 5 -r", "sub --stream S --from-seq 5 --raw"),
        ("kv view B --tls-first --domain D -q", "kv info B --tlsfirst --js-domain D --quiet"),
        ("ctx remove x", "context rm x"),
        ("micro l", "service ls"),
        ("err 10059", "errors 10059"),
        ("a nfo", "account info"),
    ],
)
def test_names_that_only_the_nats_command_shows_are_taken_too(words, same):
    parser = build_parser(WORDS, "1")
    ours, theirs = (dict(vars(parser.parse_args(line.split()))) for line in (same, words))
    for found in (ours, theirs):
        found.pop("defaults", None)
        if "at" in found:  # a moment from now
            found["at"] = bool(found["at"])
    assert ours == theirs


@pytest.mark.parametrize(("code", "ended"), [(10149, 3), (10160, 3), (10003, 1)])
def test_what_the_server_says_is_missing_ends_as_not_found(
    code: int, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its code has no class of its own."""

    def refuse(_: Invocation) -> NoReturn:
        raise APIError("no such thing", code=404, err_code=code)

    monkeypatch.setattr(Invocation, "jetstream", refuse)
    assert run("stream", "ls").code == ended


@pytest.mark.parametrize("time", ["-1", "nan", "inf", "2y"])
@pytest.mark.parametrize("words", ["top --interval", "pub a b --sleep", "bench pub --sleep"])
def test_a_pause_that_nothing_can_wait_for_is_refused(words: str, time: str) -> None:
    done = run(*words.split(), time)
    assert (done.code, done.out) == (2, "")
    assert "no time to wait" in done.err


@pytest.mark.parametrize("seconds", ["0", "0s", "-1", "0.0"])
def test_a_command_that_could_not_wait_for_an_answer_sends_nothing(seconds):
    """With no time for the confirmation a message would be stored and told as unknown."""
    for more in ({}, {"NATS_TIMEOUT": seconds}):
        flag = [] if more else [f"--timeout={seconds}"]
        done = run("pub", "a", "x", "--js", *flag, NATS_URL="nats://127.0.0.1:1", **more)
        assert (done.code, done.out) == (2, "")
        assert "timeout" in done.err.lower()
