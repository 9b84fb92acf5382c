"""The rooms of jetstream/ have an order: each imports those below it only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JETSTREAM = ROOT / "jetsync/jetstream"

OUTSIDE = {"__init__"}  # shows all of them


def order() -> list[str]:
    """The rooms, lowest first, as docs/internals/architecture.md has them."""
    text = (ROOT / "docs/internals/architecture.md").read_text()
    table = text.split("## Rooms of jetstream")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def room_of(path: Path) -> str:
    first = path.relative_to(JETSTREAM).parts[0]
    return first.removesuffix(".py")


FILES = sorted(p for p in JETSTREAM.rglob("*.py") if room_of(p) not in OUTSIDE)


def imported(path: Path) -> set[str]:
    """Rooms of jetstream/ that a file imports, in functions and for type checkers too."""
    return {
        node.module.split(".")[2]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module is not None
        and node.module.startswith("jetsync.jetstream.")
    }


def test_the_table_names_every_room():
    assert sorted(order()) == sorted({room_of(path) for path in FILES})


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(JETSTREAM).as_posix())
def test_a_file_imports_only_rooms_below_its_own(path):
    rooms = order()
    below = set(rooms[: rooms.index(room_of(path)) + 1])
    assert imported(path) <= below


def test_no_file_imports_the_package_itself():
    """That would be every room at once."""
    pattern = re.compile(r"^\s*(from jetsync\.jetstream import|import jetsync\.jetstream\b)", re.M)
    assert [path.name for path in FILES if pattern.search(path.read_text())] == []
