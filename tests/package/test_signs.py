"""Every package has a sign: what it is, its floor, its imports, its threads, what belongs there.

The sign agrees with the table of floors and with what the files of the package import.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.package.test_layers import (
    DOORS,
    HALLWAY,
    ROOT,
    cython_imports,
    python_imports,
    rooms,
    target_room,
)

PACKAGES = sorted(
    path
    for path in (ROOT / "jetsync").rglob("__init__.py")
    if path.parent.name not in HALLWAY | {"jetsync"}
)


def name_of(path: Path) -> str:
    return ".".join(path.parent.relative_to(ROOT).parts)


def sign_of(path: Path) -> dict[str, str]:
    """The lines of a sign: word -> text, with lines that go on below."""
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    found = re.findall(r"^(\w[\w ]*):\s+(.*(?:\n {11}.*)*)", doc, re.M)
    return {word: re.sub(r"\s+", " ", text) for word, text in found}


def may_import(path: Path) -> set[str]:
    """The rooms that a sign names behind "May import"."""
    text = re.search(r"May import: (.*?)\.(?: |$)", sign_of(path)["Room"])
    assert text is not None
    return set(re.findall(r"\w+", text[1])) & (set(rooms()) | {"hallway"})


def imported(path: Path) -> set[str]:
    """The rooms that the files of a package import, its own and the doors left out."""
    found: set[str] = set()
    for file in path.parent.rglob("*.p*"):
        if file.suffix not in (".py", ".pyx", ".pxd"):
            continue
        modules = python_imports(file) if file.suffix == ".py" else cython_imports(file)
        inside = file.relative_to(ROOT / "jetsync").as_posix()
        found |= {
            target
            for module in modules
            if (target := target_room(module)) and (inside, target) not in DOORS
        }
    return found - {path.relative_to(ROOT / "jetsync").parts[0]}


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_the_docstring_of_a_package_is_its_sign(path):
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert doc.startswith(f"{name_of(path)} - ")
    assert list(sign_of(path))[:4] == ["Room", "Threads", "Touch me", "Not here"]


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_a_package_imports_what_its_sign_says(path):
    assert imported(path) <= may_import(path)


@pytest.mark.parametrize("path", [p for p in PACKAGES if p.parents[2] == ROOT], ids=name_of)
def test_the_sign_of_a_room_is_its_row_in_the_table_of_floors(path):
    room = path.parent.name
    text = sign_of(path)["Room"]
    assert may_import(path) == rooms()[room]
    floors = (ROOT / "docs/internals/architecture.md").read_text()
    floor = re.search(rf"^\| (\S+) \| {room} \|", floors, re.M)
    assert floor is not None
    assert text.startswith("beside the floors" if floor[1] == "-" else f"{floor[1]}.")
