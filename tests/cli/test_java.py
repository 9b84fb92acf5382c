"""Spark gets a Java it can run on, or the user one sentence about what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jetsync.cli.failure import CommandError
from jetsync.cli.java import find_java_home, java_candidates

VECTOR = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, version: str, *, trimmed: bool = False) -> Path:
    """Make a home whose ``java`` reports a version, or its arguments when asked for none."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = f'case " $* " in *" {VECTOR} "*) exit 1;; esac\n' if trimmed else ""
    report = f"*-version*) echo 'openjdk version \"{version}\"' >&2;;"
    program.write_text(f'#!/bin/sh\n{refusal}case "$*" in {report} *) echo "$@";; esac\n')
    program.chmod(0o755)
    return home


def test_the_first_java_that_is_new_enough_wins(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    older = fake_java(tmp_path / "older", "1.8.0_392")
    good = fake_java(tmp_path / "good", "17.0.15")
    better = fake_java(tmp_path / "better", "21.0.8")
    homes = [tmp_path / "absent", old, older, good, better]
    assert find_java_home(tmp_path / "launcher", homes) == good
    assert not (tmp_path / "launcher").exists()


def test_without_a_fitting_java_the_error_says_what_to_install(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(CommandError, match=r"needs Java 17 or newer.*install one.*JAVA_HOME"):
        find_java_home(tmp_path / "launcher", [old])


def test_a_trimmed_java_gets_a_launcher_that_drops_the_one_argument(tmp_path: Path) -> None:
    trimmed = fake_java(tmp_path / "a trimmed 'one'", "21.0.8", trimmed=True)
    home = find_java_home(tmp_path / "launcher dir", [trimmed])
    launched = subprocess.run(
        [home / "bin" / "java", "-Xmx1g", VECTOR, "a b", "last"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert launched.stdout == "-Xmx1g a b last\n"


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "on-path", "17.0.1")
    chosen = tmp_path / "chosen"
    environ = {"JAVA_HOME": str(chosen), "PATH": str(on_path / "bin")}
    assert list(java_candidates(environ))[:2] == [chosen, on_path]
