"""Tests wait for conditions: a fixed wait, or a test that may be left out, says why in its line."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# An event that no other thread has is a sleep by another name; ``later`` is one of the harness.
WAIT = re.compile(r"\b(?:(?:time|gevent|eventlet)\.sleep|Event\(\)\.wait|(?<!def )(?<!\.)later)\(")
SKIPS = {"skip", "skipif", "importorskip"}
FILES = [p for p in sorted(TESTS.rglob("*.py")) if p.name != Path(__file__).name]


def unexplained_waits(text: str) -> list[int]:
    """Return the numbers of the lines with a fixed wait and no comment."""
    lines = enumerate(text.splitlines(), 1)
    return [number for number, line in lines if WAIT.search(line) and "#" not in line]


def unexplained_skips(text: str) -> list[int]:
    """Return the numbers of the lines with a skip whose reason does not say, behind a semicolon,
    what runs instead."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).startswith("pytest.")
        and ast.unparse(node.func).rpartition(".")[2] in SKIPS
        and "; " not in _reason(node)
    ]


def _reason(skip: ast.Call) -> str:
    given = [one.value for one in skip.keywords if one.arg == "reason"] or skip.args[:1]
    return ast.unparse(given[0])


@pytest.mark.parametrize("unexplained", [unexplained_waits, unexplained_skips])
def test_a_wait_and_a_skip_have_a_reason(unexplained):
    found = {path.relative_to(TESTS).as_posix(): unexplained(path.read_text()) for path in FILES}
    assert {path: numbers for path, numbers in found.items() if numbers} == {}


def test_the_check_finds_them():
    assert unexplained_waits("a\n    time.sleep(1)\n") == [2]
    assert unexplained_waits("time.sleep(1)  # the outage itself\n") == []
    assert unexplained_waits("threading.Event().wait(1)\n") == [1]
    assert unexplained_waits("over.wait(1)\n") == []
    assert unexplained_skips('pa = pytest.importorskip("pyarrow")\n') == [1]
    assert unexplained_skips('pytest.mark.skipif(True, reason="Linux only")\n') == [1]
    assert unexplained_skips('pytest.mark.skipif(True, reason="soak; x runs")\n') == []
    assert unexplained_skips('pytest.skip("no clang; x runs")\n') == []
