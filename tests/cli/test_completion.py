"""Completion in shells: the words that can follow, and names from the server."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jetsync.cli.completion import names
from jetsync.server import NatsServer
from tests.cli.run_command import clean_environment, run
from tests.harness.waiting import wait_until

SHELLS = {"bash", "zsh", "fish"}


def completed(line: str, folder: Path, **environment: str) -> list[str]:
    """Ask as a shell does, with the cursor at the end of the line."""
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(folder / "words"),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        **environment,
    }
    with clean_environment(asked):
        done = subprocess.run([sys.executable, "-m", "jetsync"], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"", b"")
    return sorted((folder / "words").read_text().split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("jetsync cons", ["consumer"]),
        ("jetsync stream in", ["info"]),
        ("jetsync stream add S --storage m", ["memory"]),
        ("jetsync stream add S --storage=m", ["--storage=memory"]),
        ("jetsync stream add S --max-a", ["--max-age"]),
        ("jetsync -s nats://a:4222 str rest", ["restore"]),
        ("jetsync worker ", ["replay", "run"]),
        ("jetsync worker shop:handle --dead", ["--dead-letter"]),
        ("jetsync version --js", ["--json"]),
        ("jetsync kv get B K ", []),
    ],
)
def test_words_are_completed_by_what_may_stand_there(
    line: str, words: list[str], tmp_path: Path
) -> None:
    assert completed(line, tmp_path) == words


def test_files_are_offered_where_one_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.json").write_text("{}")
    (tmp_path / "orders").mkdir()
    (tmp_path / "other").touch()
    assert completed("jetsync stream add S --config ord", tmp_path) == ["orders.json", "orders/"]
    assert completed("jetsync stream restore ord", tmp_path) == ["orders.json", "orders/"]


def test_every_first_word_is_offered(tmp_path: Path) -> None:
    offered = completed("jetsync ", tmp_path)
    assert {"pub", "stream", "consumer", "kv", "object", "top", "worker"} <= set(offered)
    assert not any(word.startswith("-") for word in offered)


def test_names_come_from_the_server(stream, url, nc, tmp_path: Path) -> None:
    """Streams, their consumers, buckets, stores and contexts; flags of the line are heeded."""
    js = nc.jetstream()
    stream.create_consumer(durable_name="billing", name="billing")
    js.create_key_value(bucket="COMPLETED", storage="memory")
    js.create_object_store(bucket="FILED", storage="memory")
    config = tmp_path / "config/nats/context"
    config.mkdir(parents=True)
    (config / "near.json").write_text("{}")
    asked = [
        (f"jetsync -s {url} stream info {stream.name[:5]}", stream.name),
        (f"jetsync --server={url} consumer info {stream.name} b", "billing"),
        (f"jetsync sub -s {url} --stream {stream.name[:5]}", stream.name),
        (f"jetsync -s {url} kv get COMP", "COMPLETED"),
        (f"jetsync -s {url} object ls FIL", "FILED"),
        ("jetsync --context n", "near"),
    ]
    try:
        for line, name in asked:

            def is_completed(line: str = line, name: str = name) -> bool:
                return completed(line, tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config")) == [name]

            # The server gets half a second only, which a busy machine may need for itself.
            wait_until(is_completed, timeout=60)
    finally:
        js.delete_key_value("COMPLETED")
        js.delete_object_store("FILED")


def test_who_does_not_answer_is_asked_half_a_second_and_nothing_is_said() -> None:
    """No server, one that is silent, and one without the stream: no names, no error."""
    with clean_environment({}):
        args = argparse.Namespace(server="nats://127.0.0.1:1", stream="NONE")
        assert names("stream", args) == []
        with NatsServer(jetstream=True) as server:
            args.server = server.url
            assert names("consumer", args) == []
            server.pause()
            begun = time.monotonic()
            assert names("stream", args) == []
            seconds = time.monotonic() - begun
            server.resume()
        assert 0.5 <= seconds < 4


def script(shell: str) -> str:
    """Return a program of a shell that prints what completes the line in LINE."""
    here = f'jetsync() {{ {sys.executable} -m jetsync "$@"; }}'
    if shell == "fish":
        return f"""function jetsync; {sys.executable} -m jetsync $argv; end
            jetsync completion fish | source
            complete -C "$LINE" | string replace -r '\\t.*' ''"""
    if shell == "zsh":
        return f"""{here}
            compdef() {{ }}; _describe() {{ print -l ${{(P)2}}; }}
            eval "$(jetsync completion zsh)"
            words=(${{(z)LINE}}); [[ $LINE == *' ' ]] && words+=('')
            CURRENT=$#words; BUFFER=$LINE; CURSOR=$#LINE; service=jetsync
            _python_argcomplete jetsync"""
    return f"""{here}
        COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
        eval "$(jetsync completion bash)"
        COMP_LINE=$LINE; COMP_POINT=${{#LINE}}; COMP_TYPE=9
        _python_argcomplete jetsync; printf '%s\\n' "${{COMPREPLY[@]}}" """


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_what_is_printed_for_a_shell_makes_it_complete(stream, url, shell: str) -> None:
    assert run("completion", shell).code == 0
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here; the candidates are tested without a shell")

    def words(line: str) -> list[str]:
        flags = {"zsh": ["-f"], "bash": ["--norc"], "fish": ["--no-config"]}[shell]
        with clean_environment({"LINE": line}):
            told = subprocess.run(
                [shell, *flags, "-c", script(shell)], capture_output=True, text=True, check=False
            )
        return [one.strip().partition(":")[0] for one in told.stdout.splitlines()]

    assert words("jetsync stream inf") == ["info"]
    asked = f"jetsync -s {url} stream info {stream.name[:5]}"
    # The server gets half a second only, which a busy machine may need for itself.
    wait_until(lambda: words(asked) == [stream.name], timeout=60)
