"""The page of promises says what the records say, and every figure of a test has its row."""

from __future__ import annotations

import re
from pathlib import Path

from tests.soak import page
from tests.soak.parts import PARTS
from tests.soak.promises import GOALS, PROMISES

TESTS = Path(__file__).parents[1]
CODE = re.compile(r"\b(?:record_figure|keeps_promise)\(\s*f?\"(G\d+[a-d]?)\b")


def test_the_page_is_made_of_the_records():
    assert page.PAGE.read_text() == page.text(), "run python -m tests.soak.page"


def test_the_codes_that_tests_use_are_on_the_page():
    used = {code for path in TESTS.rglob("*.py") for code in CODE.findall(path.read_text())}
    assert len(used) > 10
    assert used <= set(GOALS)
    assert list(PROMISES) == [f"P{n}" for n in range(1, 11)]


def test_every_figure_names_the_parts_that_show_it():
    assert {part for goal in GOALS.values() for part in goal.parts} <= set(PARTS)
    each_commit = [code for code, goal in GOALS.items() if not goal.parts]
    for code in each_commit:
        (path,) = re.findall(r"`(tests/\S+\.py)`", GOALS[code].size)
        assert (TESTS.parent / path).exists(), code


def test_the_parts_name_what_there_is():
    for place in (place for places in PARTS.values() for place in places):
        assert (TESTS.parent / place.partition("::")[0]).exists(), place
