"""The examples without Spark run as they are, on a new server, and print what is on record."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jetsync.server import NatsServer
from tests.harness.pages import ROOT

EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in (EXAMPLES / "expected").glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_it_is_known_for(name, tmp_path):
    with NatsServer() as server:
        done = subprocess.run(
            [sys.executable, "-W", "error", EXAMPLES / f"{name}.py", server.url],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == (EXAMPLES / f"expected/{name}.txt").read_text()


def test_every_example_is_in_the_table():
    table = (EXAMPLES / "README.md").read_text()
    programs = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")}
    assert [name for name in sorted(programs) if f"({name})" not in table] == []
