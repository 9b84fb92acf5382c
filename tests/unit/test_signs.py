"""Every package has a sign on its door: what it is, its floor, its threads, what belongs there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(
    p for p in (ROOT / "jetsync").glob("*/__init__.py") if "__pycache__" not in p.parts
)


@pytest.mark.parametrize("path", PACKAGES, ids=lambda p: p.parent.name)
def test_the_docstring_of_a_package_is_its_sign(path):
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    lines = doc.splitlines()
    assert lines[0].startswith(f"jetsync.{path.parent.name} - ")
    for word in ("Room:", "Threads:", "Touch me:", "Not here:"):
        assert sum(line.startswith(word) for line in lines) == 1, f"no line {word!r}"
