"""Texts name who acts: words that hide the subject of a sentence stay out of code and documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HIDING = re.compile(
    r"(?:(?<=\"{3})|(?<![\w.'\"]))"
    r"(somebody|someone|anybody|anyone|everybody|everyone|nobody|whoever|no one)"
    r"(?![\w'\"]|\.\w|\\)",
    re.IGNORECASE,
)
# A clause in the place of the subject ("What comes late is ...") has no actor either.
CLAUSE = re.compile(r'(?:"{3}|^\s*# |/\* )(What|Who|Whose|So many|So much|So long|Those that)\b')
# The code of a promise or figure, in front of a docstring or in parentheses.
CODE = re.compile(r'(?:"{3}|[(,] ?)([A-Z]\d{1,2}[a-z]?)(?=[:,)])')
SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".md", ".sh", ".toml", ".yml"}
# Generated: made from the sources that are read here.
COMPILED = {p.with_suffix(".c") for p in (ROOT / "jetsync/_core").glob("*.pyx")}


def texts(*places: str) -> list[Path]:
    found = []
    for place in places:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("*"))
    return [p for p in found if p.suffix in SUFFIXES and p not in COMPILED]


@pytest.mark.parametrize(
    "place",
    [
        "csrc",
        "jetsync",
        "docs",
        "examples",
        "tests",
        "benchmarks",
        ".ci",
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
    ],
)
def test_a_sentence_says_who_acts(place):
    """Which thread, client or server does something is what a reader has to know."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts(place)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if HIDING.search(line) and path.name != Path(__file__).name
    ]
    assert found == []


@pytest.mark.parametrize("place", ["csrc", "jetsync"])
def test_a_comment_begins_with_its_subject(place):
    """The first words of a docstring or comment name a thing of the field, or say what is done."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts(place)
        if path.suffix != ".md"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if CLAUSE.search(line)
    ]
    assert found == []


NAMED = re.compile(
    r"^\s*(?:async )?(?:def|class) \w*(?:some|any|every|no)body|whoever", re.IGNORECASE
)


def test_the_name_of_a_function_says_who_acts():
    """A test is read by its name first: "no_server_answers", "no_thread_waits"."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts("jetsync", "tests", "benchmarks", "examples")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if NAMED.search(line) and path.name != Path(__file__).name
    ]
    assert found == []


def test_codes_in_tests_are_those_of_the_page_of_promises():
    known = set(re.findall(r"[A-Z]\d{1,2}[a-z]?", (ROOT / "docs/reliability.md").read_text()))
    found = [
        f"{path.relative_to(ROOT)}:{number}: {code}"
        for path in (ROOT / "tests").rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for code in CODE.findall(line)
        if '"""' in line and code not in known and path.name != Path(__file__).name
    ]
    assert found == []


def test_the_check_finds_such_words():
    assert CODE.findall('"""B6: nothing."""') == ["B6"]
    assert CODE.findall('"""Three outcomes (P3, C1)."""') == ["P3", "C1"]
    assert CLAUSE.search('    """What comes late."""')
    assert CLAUSE.search("    # Who waits here is woken.")
    assert CLAUSE.search("/* So many bytes fit. */")
    assert not CLAUSE.search("# Whatever the policy was")
    assert HIDING.search("# Nobody reads it.")
    assert HIDING.search('"""Whoever reads it."""')
    assert HIDING.search("for no one else")
    assert not HIDING.search("nobody_reads = anyone_else()")
    assert not HIDING.search('subscribe("nobody.listens")')
