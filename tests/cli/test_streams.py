"""The standard streams may be narrow, full or missing: no command ends with a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Ended:
    code: int
    out: bytes
    err: bytes


def shell(line: str, *arguments: str, **environment: str) -> Ended:
    """Run a line of the shell in which ``$@`` is the command."""
    done = subprocess.run(
        ["sh", "-c", line, "sh", sys.executable, "-m", "jetsync", *arguments],
        capture_output=True,
        check=False,
        cwd="/",  # the installed package, and not a folder of its sources
        env={"PATH": "/usr/bin:/bin", **environment},
        timeout=60,
    )
    assert b"Traceback" not in done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_text_is_printed_whatever_the_encoding_of_the_terminal(url, encoding) -> None:
    narrow = {"NATS_URL": url, "PYTHONIOENCODING": encoding, "LC_ALL": "C.UTF-8"}
    done = shell('exec "$@"', "pub", "text.\u0436", "x", **narrow)
    shown = "text.\u0436".encode(encoding, "backslashreplace")
    assert (done.code, done.out) == (0, b"published 1 message to '%s'\n" % shown)
    told = shell('exec "$@"', "pub", "text.\u0436", "x", "--json", **narrow)
    assert json.loads(told.out.decode())["subject"] == "text.\u0436"


def test_arguments_that_are_no_text_of_the_locale_are_shown_as_escapes(url) -> None:
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "NATS_URL": url}
    done = shell('exec "$@"', "stream", "info", "\u0436", **plain)
    assert (done.code, done.out) == (2, b"")
    assert rb"\udcd0" in done.err


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_stream_that_is_missing_is_the_null_device(url, stream) -> None:
    number = ("stdin", "stdout", "stderr").index(stream)
    line = f'exec "$@" {number}{"<" if number == 0 else ">"}&-'
    done = shell(line, "pub", "text.a", "-", NATS_URL=url)
    assert done.code == 0
    assert (b"published 1" in done.out) == (stream != "stdout")
    failed = shell(line, "errors", "99999", "--json")
    assert failed.code == 3
    assert (b"99999" in failed.err) == (stream != "stderr")
    if stream != "stdout":
        assert json.loads(failed.out)["error"]["type"] == "NotFoundError"


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_full_disk_ends_a_command_with_one_sentence(flags) -> None:
    for words, code in ((["errors"], 1), (["version"], 1), (["errors", "99999"], 3)):
        done = shell('exec "$@" >/dev/full', *words, *flags)
        assert (done.code, done.err.count(b"\n")) == (code, 1)
        assert done.err.startswith(b"jetsync: ")


@pytest.mark.parametrize("words", [[], ["stream"], ["bench"]])
def test_a_line_without_a_command_is_an_error_object_with_json(words) -> None:
    done = shell('exec "$@"', *words, "--json")
    assert done.code == 2
    assert json.loads(done.out)["error"]["type"] == "UsageError"
    assert b"a command is missing; 'jetsync" in done.err
