"""No room uses what is private to another one, whichever way it got hold of the object."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "jetsync"

# Rooms of Python code, from below. `_core` is compiled; what its .pxd files declare with an
# underscore is shared with the rooms that derive from its classes, see SHARED.
ROOMS = (
    "protocol",
    "client",
    "jetstream",
    "kv",
    "objectstore",
    "spark",
    "worker",
    "observe",
    "otel",
    "server",
    "testing",
    "cli",
)

# Private names that a room may use although another one declares them: (room, name) -> why.
ALLOWED: dict[tuple[str, str], str] = {
    ("kv", "_bucket"): "inherited from the watcher of buckets, on self",
    ("objectstore", "_Hash"): "of the standard library, which gives this type no other name",
}


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


# Of the compiled class that those of the file derive from.
BASES = {"_give", "_port"}

# What a named tuple calls so although it is public.
PUBLIC = {"_asdict", "_fields", "_make", "_replace"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def declared(room: str) -> set[str]:
    """Private names of a room."""
    return declared_in(files(room))


def declared_in(paths: Iterable[Path]) -> set[str]:
    """Private names of files: functions, class bodies, slots, and attributes set on self."""
    names: set[str] = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id in ("self", "cls")
            ):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and re.fullmatch(r"_[a-z]\w*", str(node.value)):
                names.add(str(node.value))  # __slots__
    return {name for name in names if is_private(name)}


def core_names() -> set[str]:
    """Private names of compiled classes: a room gets messages, mailboxes and batches of these."""
    text = "\n".join(
        path.read_text() for s in ("*.pyx", "*.pxd", "*.pyi") for path in (ROOT / "_core").glob(s)
    )
    return set(re.findall(r"\b(_[a-z]\w*)\b", text))


def uses(path: Path) -> list[tuple[int, str, str]]:
    """Private attributes that are used on anything: (line, owner, name)."""
    return [
        (node.lineno, ast.unparse(node.value), node.attr)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and is_private(node.attr)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_uses_private_names_of_its_own_only(room):
    own, core = declared(room), core_names()
    foreign = [
        f"{path.relative_to(ROOT)}:{line}: {owner}.{name}"
        for path in files(room)
        for line, owner, name in uses(path)
        if name not in own and name not in core and (room, name) not in ALLOWED
    ]
    assert foreign == []


def test_no_upper_room_reaches_into_a_connection():
    """Not even by a name that it declares itself: what is private to the classes of ``client/`` is
    used on ``self`` and ``cls`` only."""
    below = declared("client") | {"_outbound", "_refusal"}
    owners = re.compile(r"(^|\.)_?(nc|connection|client|conn|port)(\(\))?$")
    found = [
        f"{path.relative_to(ROOT)}:{line}: {owner}.{name}"
        for room in ROOMS[2:]
        for path in files(room)
        for line, owner, name in uses(path)
        if name in below and owners.search(owner)
    ]
    assert found == []


@pytest.mark.parametrize("room", [*ROOMS[2:], "contrib", "prometheus", "services"])
def test_above_client_a_file_uses_the_private_names_of_its_own_classes_only(room):
    """On ``self`` and ``cls``, or where the class of the object stands in the same file."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {owner}.{name}"
        for path in files(room)
        for line, owner, name in uses(path)
        if owner not in ("self", "cls")
        and not owner.startswith("super(")
        and name not in declared_in([path]) | BASES
        and (room, name) not in ALLOWED
    ]
    assert found == []


def test_nothing_is_allowed_that_is_not_used():
    used = {(room, name) for room in ROOMS for path in files(room) for _, _, name in uses(path)}
    assert set(ALLOWED) <= used


def test_the_check_sees_a_private_access(tmp_path):
    """It catches what it is there for."""
    path = tmp_path / "sample.py"
    path.write_text("def f(nc):\n    nc._session.epoch\n    return nc._session._link\n")
    assert sorted((line, name) for line, _, name in uses(path)) == [
        (2, "_session"),
        (3, "_link"),
        (3, "_session"),
    ]
