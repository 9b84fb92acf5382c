"""The documents about the inside name only what exists."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INTERNALS = ROOT / "docs/internals"
PAGES = [*sorted(INTERNALS.glob("*.md")), ROOT / "CONTRIBUTING.md"]
MOST_HOPS = 12
MOST_CONCEPTS = 12
SOURCES = [
    path
    for folder in ("csrc", "jetsync", "tests", "benchmarks", ".ci", ".github", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".sh", ".yml"}
] + [ROOT / name for name in ("setup.py", "Makefile", "pyproject.toml")]
# Words of Python, of protocols and of other programs that the code itself need not use.
FOREIGN = {"PYTHON_GIL", "gil", "X", "SID", "SSLObject", "MALLOC_MMAP_THRESHOLD_"}


def quoted(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


@functools.cache
def words_of_the_code() -> frozenset[str]:
    words: set[str] = set()
    for path in SOURCES:
        words.update(re.findall(r"\w+", path.read_text(errors="replace")))
        words.update(re.split(r"\W+", path.relative_to(ROOT).as_posix()))
    return frozenset(words)


def find(path: str) -> Path | None:
    """The file or folder that a document means: below the root, jetsync/ or jetsync/jetstream/."""
    for base in (
        ROOT,
        ROOT / "jetsync",
        ROOT / "jetsync/jetstream",
        ROOT / "jetsync/jetstream/pull",
    ):
        if (base / path).exists():
            return base / path
    below = path.rsplit("/", 1)[-1]
    return next((p for p in SOURCES if p.as_posix().endswith("/" + path) or p.name == below), None)


def is_defined(function: str, path: Path) -> bool:
    """Whether a file defines a function: Python, Cython or C."""
    text = path.read_text()
    if path.suffix in (".c", ".h"):
        return re.search(rf"^[\w\s*]*\b{function}\([^;]*?\) \{{", text, re.M) is not None
    return re.search(rf"^\s*(def|cdef|cpdef)\b[^=\n]*\b{function}\(", text, re.M) is not None


def walks() -> dict[str, list[str]]:
    """The walks: title -> its numbered hops."""
    sections = (INTERNALS / "walks.md").read_text().split("\n## ")[1:]
    return {
        section.split("\n", 1)[0]: re.findall(
            r"^\d+\. (.+?)(?=^\d+\. |^\s*$|\Z)", section, re.M | re.S
        )
        for section in sections
    }


@pytest.mark.parametrize("title", walks())
def test_a_walk_is_short_and_every_hop_exists(title):
    hops = walks()[title]
    assert 5 <= len(hops) <= MOST_HOPS
    for hop in hops:
        first = re.match(r"`([\w./]+):(\w+)`: ", hop)
        assert first, f"a hop begins with file, function and reason: {hop}"
        for name, function in re.findall(r"`([\w./]+\.\w+):(\w+)`", hop):
            path = ROOT / name
            assert path.is_file(), name
            assert is_defined(function, path), f"{name} has no {function}"


def test_the_check_of_functions_finds_definitions_only(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text("def first():\n    second()\n")
    assert is_defined("first", path)
    assert not is_defined("second", path)
    path = tmp_path / "sample.c"
    path.write_text("static int first(int a,\n                 int b) {\n    second(a);\n}\n")
    assert is_defined("first", path)
    assert not is_defined("second", path)


def test_every_room_has_a_row_in_contributing():
    """A newcomer finds the folder, and the tests, of whatever is to be changed."""
    rows = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = [p for p in (ROOT / "jetsync").iterdir() if (p / "__init__.py").exists()]
    inner = [p for p in (ROOT / "jetsync/jetstream").iterdir() if (p / "__init__.py").exists()]
    missing = [
        p.name for p in [*rooms, *inner] if f"{p.name}/" not in rows and f"/{p.name}" not in rows
    ]
    assert missing == []


def test_few_concepts_lie_on_the_path_of_a_message():
    table = (INTERNALS / "glossary.md").read_text().split("| --- | --- | --- |")[1].split("\n\n")[0]
    assert len(table.strip().splitlines()) <= MOST_CONCEPTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_of_a_page_exist(page):
    named = [
        text.split(":")[0]
        for text in quoted(page)
        if re.fullmatch(r"[\w./-]+\.(py|pyx|pxd|c|h|md|tsv|sh)(:\w+)?", text)
        or re.fullmatch(r"(csrc|jetsync|tests|docs|benchmarks)/[\w./-]*", text)
    ]
    assert [name for name in named if find(name) is None] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_names_of_a_page_occur_in_the_code(page):
    known = words_of_the_code() | FOREIGN
    names = {name for text in quoted(page) for name in re.findall(r"[A-Za-z_]\w*", text)}
    assert sorted(names - known) == []


def roles(text: str) -> set[str]:
    """The roles of the threads that a source starts, where it names them as literals."""
    calls = r"\b(?:start_thread|ThreadPool|Dispatcher|DoneCallbacks)\((?:[^()]|\([^()]*\))*?"
    return set(re.findall(calls + r'"([a-z-]+)"', text))


def test_every_thread_of_the_code_is_in_the_table_of_threads():
    table = (INTERNALS / "threads.md").read_text().split("## What is shared")[0]
    documented = set(re.findall(r"`jetsync-([a-z-]+?)(?:-[nN](?:-SID)?)?`", table))
    code = "\n".join(path.read_text() for path in (ROOT / "jetsync").rglob("*.py"))
    assert roles(code) - documented == set(), "threads that no document names"
    literals = set(re.findall(r'"(?:jetsync-)?([a-z-]+)"', code))
    assert documented - literals == set(), "threads that no code starts"


def test_the_check_of_threads_sees_a_role():
    assert roles('start_thread("reader", self._run, 1)\nThreadPool("x-ask", min(a, b))') == {
        "reader",
        "x-ask",
    }
