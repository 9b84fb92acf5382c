"""No room uses what is private to another one, whichever way it got hold of the object."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "jetsync"
ROOMS = sorted(
    path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("_")
)
# `client` is one room: its objects are parts of a connection. Rooms above it use its port.
ABOVE_CLIENT = [room for room in ROOMS if room not in ("client", "protocol", "errors")]

# Names that begin with an underscore although they are public: of named tuples, of IPython, and of
# the module os.
PUBLIC = {"_asdict", "_fields", "_make", "_replace", "_repr_html_", "_exit"}


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


@functools.cache
def declared_in(path: Path) -> set[str]:
    """Private names of a file: functions, class bodies, slots, and attributes set on self."""
    names: set[str] = set()
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


def declared(room: str) -> set[str]:
    return {name for path in files(room) for name in declared_in(path)}


@functools.cache
def uses(path: Path) -> list[tuple[int, str, str]]:
    """Private attributes that are used on anything: (line, owner, name)."""
    return [
        (node.lineno, ast.unparse(node.value), node.attr)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and is_private(node.attr)
    ]


def is_own(owner: str) -> bool:
    return owner in ("self", "cls") or owner.startswith("super(")


def foreign(paths: Iterable[Path]) -> list[str]:
    """Private names that are used on objects whose class stands in another file."""
    return [
        f"{path.name}:{line}: {owner}.{name}"
        for path in paths
        for line, owner, name in uses(path)
        if not is_own(owner) and name not in declared_in(path)
    ]


@pytest.mark.parametrize("room", ABOVE_CLIENT)
def test_above_client_a_file_uses_the_private_names_of_its_own_classes_only(room):
    assert foreign(files(room)) == []


@pytest.mark.parametrize("room", ["client", "protocol", "errors"])
def test_client_and_the_rooms_below_use_the_private_names_of_their_room_only(room):
    own = declared(room) | COMPILED
    assert [
        f"{path.relative_to(ROOT)}:{line}: {owner}.{name}"
        for path in files(room)
        for line, owner, name in uses(path)
        if name not in own
    ] == []


@pytest.mark.parametrize("room", ABOVE_CLIENT)
def test_a_class_uses_private_names_of_bases_in_its_own_room_or_of_compiled_ones(room):
    """Not those of a base class in another Python room, which it would have to know by heart."""
    own = declared(room) | COMPILED | BASES_OF_OTHERS.get(room, set())
    assert [
        f"{path.relative_to(ROOT)}:{line}: {owner}.{name}"
        for path in files(room)
        for line, owner, name in uses(path)
        if is_own(owner) and name not in own
    ] == []


# -- compiled classes ------------------------------------------------------------------------------

SOURCES = [
    path for suffix in ("pyx", "pxd") for path in sorted((ROOT / "_core").glob("*." + suffix))
]
STUBS = sorted((ROOT / "_core").glob("*.pyi"))
# What the stubs of compiled classes declare for the classes that derive from them.
COMPILED = {
    name for path in STUBS for name in re.findall(r"\b(_[a-z]\w*)\b", path.read_text())
} - PUBLIC
# Frameworks whose documented interface for subclasses begins with an underscore.
BASES_OF_OTHERS = {
    "contrib": {
        "_consumers",
        "_ensure_not_eager",
        "_get_message_priority",
        "_on_collect",
        "_tag_to_queue",
    },
}


def compiled_classes(paths: Iterable[Path]) -> dict[str, tuple[str, list[str]]]:
    """The extension classes of Cython files: name -> (base, lines of its bodies)."""
    found: dict[str, tuple[str, list[str]]] = {}
    for path in paths:
        lines: list[str] | None = None
        for line in path.read_text().splitlines():
            if begun := re.match(r"(?:cdef )?class (\w+)(?:\((\w*)\))?", line):
                base, lines = found.get(begun[1], ("", []))
                found[begun[1]] = (begun[2] or base, lines)
            elif line and not line[0].isspace() and line[0] != "#":
                lines = None
            elif lines is not None:
                lines.append(line)
    return found


def undeclared(classes: dict[str, tuple[str, list[str]]], name: str) -> set[str]:
    """What a class uses on self and neither it nor a base of it declares."""
    used = {attr for line in classes[name][1] for attr in re.findall(r"\bself\.(\w+)", line)}
    own: set[str] = set()
    while name in classes:
        name, lines = classes[name]
        for line in lines:
            if re.match(r" +(cdef|cpdef|def) ", line):
                own |= set(re.findall(r"\w+", line))
            elif begun := re.match(r" {4}(\w+) *[:=]", line):
                own.add(begun[1])
    return used - own


def test_a_compiled_class_declares_every_method_that_a_subclass_implements():
    """Control goes up to a room above by a method that stands in the class below."""
    classes = compiled_classes(SOURCES)
    assert len(classes) > 30
    found = {name: undeclared(classes, name) for name in classes}
    assert {name: names for name, names in found.items() if names} == {}


# -- the checks themselves -------------------------------------------------------------------------


def test_the_check_sees_a_private_access(tmp_path):
    """It catches what it is there for."""
    path = tmp_path / "sample.py"
    path.write_text("def f(nc):\n    nc._session.epoch\n    return nc._session._link\n")
    assert sorted((line, name) for line, _, name in uses(path)) == [
        (2, "_session"),
        (3, "_link"),
        (3, "_session"),
    ]
    assert len(foreign([path])) == 3


def test_the_check_sees_an_undeclared_call_of_a_subclass(tmp_path):
    path = tmp_path / "sample.pyx"
    path.write_text(
        "cdef class Base:\n    cdef int count\n\n    def hook(self):\n        raise X\n\n"
        "cdef class Loop(Base):\n    def run(self):\n        self.hook()\n        self._above()\n"
        "        return self.count\n"
    )
    classes = compiled_classes([path])
    assert undeclared(classes, "Base") == set()
    assert undeclared(classes, "Loop") == {"_above"}


def test_spark_knows_the_errors_of_the_server_by_their_classes():
    """A number stands where there is no class for it alone: of an id that a batch repeats."""
    numbers = {
        (path.name, node.value)
        for path in files("spark")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and type(node.value) is int
        and 10_000 < node.value < 10_300
    }
    assert numbers == {("atomic.py", 10_201)}
