"""The floors of docs/internals/architecture.md hold: nothing imports up or sideways."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import jetsync

ROOT = Path(__file__).parents[2]
HALLWAY = {
    "errors",
    "headers",
    "_counted",
    "_deadline",
    "_files",
    "_futures",
    "_handles",
    "_latch",
    "_locks",
    "_log",
    "_measurement",
    "_native",
    "_numbers",
    "_printable",
    "_signatures",
    "_threads",
    "_version",
}

# The doors up import lazily, inside a function or for type checkers: Connection.jetstream(),
# Connection.add_service() and the key-value and object store calls of JetStream.
DOORS = {
    ("client/connection.py", "jetstream"),
    ("client/connection.py", "services"),
    ("client/connecting.py", "observe"),
    ("client/options.py", "observe"),  # the type of an option
    ("jetstream/context.py", "kv"),
    ("jetstream/context.py", "objectstore"),
    ("worker/__main__.py", "cli"),
}
# The types of two compiled classes that users get name classes of jetstream; no code is imported.
TYPES_ABOVE = {("_core/futures.pyi", "jetstream"), ("_core/handles.pyi", "jetstream")}
# INFO tells what the server does, contexts hold settings of every floor, and the trace of a message
# tells who takes it: these files pass on values whose names say jetstream, and nothing else.
NAMES_ITS_FIELDS = (
    "__init__.py",
    "info.py",
    "contexts.py",
    "options.py",
    "connecting.py",
    "message_trace.py",
)
# `jetsync/__init__.py` and `config.py` re-export names of all floors; `__main__.py` starts the
# command line.
OUTSIDE = {"__init__.py", "__main__.py", "config.py"}


def rooms() -> dict[str, set[str]]:
    """Read the table: room -> rooms it may import."""
    text = (ROOT / "docs/internals/architecture.md").read_text()
    table = text.split("## Floors")[1].split("##")[0]
    found = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[2] in ("Python", "Cython", "C11"):
            found[cells[1]] = {part.strip() for part in cells[3].split(",")}
    return found


def room_of(path: Path) -> str:
    relative = path.relative_to(ROOT / "jetsync")
    first = relative.parts[0].removesuffix(".py")
    return "hallway" if len(relative.parts) == 1 or first in HALLWAY else first


def target_room(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] != "jetsync" or len(parts) < 2:
        return None
    if parts[1] in HALLWAY:
        return "hallway"
    # `from jetsync import Consumer` uses the public surface, which jetstream is the top of.
    return parts[1] if (ROOT / "jetsync" / parts[1]).is_dir() else "jetstream"


def python_imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "jetsync":
                found.update(f"jetsync.{alias.name}" for alias in node.names)
            else:
                found.add(node.module)
    return found


def cython_imports(path: Path) -> set[str]:
    return set(re.findall(r"^\s*from\s+([\w.]+)\s+c?import", path.read_text(), re.M))


def sources() -> list[Path]:
    files = [p for s in ("*.py", "*.pyi", "*.pyx", "*.pxd") for p in (ROOT / "jetsync").rglob(s)]
    return sorted(p for p in files if p.relative_to(ROOT / "jetsync").as_posix() not in OUTSIDE)


def test_the_table_names_every_room():
    on_disk = {
        p.name for p in (ROOT / "jetsync").iterdir() if p.is_dir() and p.name != "__pycache__"
    }
    assert (on_disk - HALLWAY) | {"csrc", "hallway"} == set(rooms())


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_file_imports_only_what_its_room_may(path):
    room = room_of(path)
    allowed = rooms()[room] | {room}
    is_python = path.suffix in (".py", ".pyi")
    imports = python_imports(path) if is_python else cython_imports(path)
    for module in imports:
        target = target_room(module)
        door = path.relative_to(ROOT / "jetsync").as_posix(), target
        if target is None or door in DOORS | TYPES_ABOVE:
            continue
        assert target in allowed, f"{path.name} ({room}) imports {module} ({target})"


def test_what_serves_other_frameworks_uses_public_names_only():
    """So it could be given to them: names of ``jetsync.__all__``, and files of its own room."""
    for path in (ROOT / "jetsync/contrib").rglob("*.py"):
        for module in python_imports(path):
            if module.startswith("jetsync.") and not module.startswith("jetsync.contrib"):
                assert module.removeprefix("jetsync.") in jetsync.__all__, f"{path}: {module}"


@pytest.mark.parametrize(("library", "file"), [("jet", "csrc.pxd"), ("link", "link.pxd")])
def test_only_one_file_names_the_functions_of_a_c_library(library, file):
    named = re.compile(rf'cdef extern from "{library}(_\w+)?\.h"')
    naming = [p.name for p in sources() if p.suffix != ".py" and named.search(p.read_text())]
    assert naming == [file]


def test_the_c_library_knows_neither_python_nor_threads():
    for path in (ROOT / "csrc").glob("*.[ch]"):
        assert not re.search(r"Python\.h|pthread|printf\(", path.read_text()), path.name


def test_the_library_of_queues_and_locks_does_not_know_python():
    for path in (ROOT / "csrc/link").glob("*.[ch]"):
        assert not re.search(r"Python\.h|Py[A-Z_]\w+\(", path.read_text()), path.name


def test_locks_and_atomics_are_used_through_one_header_only():
    """A test leaves each of them out by that header, to show that it is needed."""
    used = re.compile(r"pthread_mutex_(try)?lock|__atomic_|stdatomic|_Atomic")
    portable = "link_wakeup.c"  # where there is no futex, a wake-up is a condition with its mutex
    found = {p.name for p in (ROOT / "csrc/link").glob("*.[ch]") if used.search(p.read_text())} - {
        portable
    }
    assert found == {"link_sync.h"}


def test_threads_start_in_one_file_only():
    """There they get their names, their mask of signals, and the way around gevent's patches."""
    start = re.compile(
        r"(?<!def )\bThread\(|threading\.Timer\(|\bThreadPoolExecutor\b|start_new_thread"
    )
    starting = {
        p.relative_to(ROOT / "jetsync").as_posix() for p in sources() if start.search(p.read_text())
    }
    # contrib/ uses public names only, and its thread is one of gevent's where those are.
    assert starting == {"_threads.py", "contrib/kombu/renewal.py"}


def test_one_file_only_writes_to_the_log():
    """There each record is made printable, tracebacks included."""
    writes = re.compile(
        r"getLogger|exc_info=|LoggerAdapter|logging\.(exception|error|warning|log)\("
    )
    sets_up_handlers = {"cli/invocation.py", "cli/demo.py"}
    found = {
        p.relative_to(ROOT / "jetsync").as_posix()
        for p in sources()
        if writes.search(p.read_text())
    }
    assert found - sets_up_handlers == {"_log.py"}


def test_the_lower_floors_never_learn_the_word_jetstream():
    for room in ("client", "protocol"):
        for path in (ROOT / "jetsync" / room).rglob("*.py"):
            relative = path.relative_to(ROOT / "jetsync").as_posix()
            if (relative, "jetstream") in DOORS or path.name in NAMES_ITS_FIELDS:
                continue
            assert "jetstream" not in path.read_text().lower(), relative
