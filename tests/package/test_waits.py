"""Tests wait for conditions: a fixed wait, or a test that may be left out, says why in its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
WAIT = re.compile(r"\b(?:time|gevent|eventlet)\.sleep\(")
SKIP = re.compile(r"\bpytest\.(?:mark\.skipif|mark\.skip|skip|importorskip)\(")
FILES = [p for p in sorted(TESTS.rglob("*.py")) if p.name != Path(__file__).name]


def unexplained_waits(text: str) -> list[int]:
    """Return the numbers of the lines with a fixed wait and no comment."""
    lines = enumerate(text.splitlines(), 1)
    return [number for number, line in lines if WAIT.search(line) and "#" not in line]


def unexplained_skips(text: str) -> list[int]:
    """Return the numbers of the lines with a skip that names no reason."""
    found = []
    for match in SKIP.finditer(text):
        call = text[match.start() : match.start() + 400]
        named = "reason=" in call or re.match(
            r"pytest\.skip\([^)\s]|pytest\.skip\(\s*[fr'\"]", call
        )
        if not named:
            found.append(text.count("\n", 0, match.start()) + 1)
    return found


@pytest.mark.parametrize("unexplained", [unexplained_waits, unexplained_skips])
def test_a_wait_and_a_skip_have_a_reason(unexplained):
    found = {path.relative_to(TESTS).as_posix(): unexplained(path.read_text()) for path in FILES}
    assert {path: numbers for path, numbers in found.items() if numbers} == {}


def test_the_check_finds_them():
    assert unexplained_waits("a\n    time.sleep(1)\n") == [2]
    assert unexplained_waits("time.sleep(1)  # the outage itself\n") == []
    assert unexplained_skips('pa = pytest.importorskip("pyarrow")\n') == [1]
    assert unexplained_skips('@pytest.mark.skipif(True, reason="Linux only")\n') == []
    assert unexplained_skips('pytest.skip("no clang")\n') == []
