"""The page of promises says what the records say, and every figure of a test has its row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

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


def record(*figures: tuple[str, float, str, str]) -> dict[str, Any]:
    """What a part keeps that measured these: name, value, unit, goal."""
    kept = [{"figure": f, "value": v, "unit": u, "goal": g} for f, v, u, g in figures]
    return {"date": "2026-01-02", "commit": "abc", "minutes": 1, "python": "3.11", "processors": 2,
            "figures": kept}  # fmt: skip


def line_of(text: str, start: str) -> str:
    (line,) = [one for one in text.splitlines() if one.startswith(start)]
    return line


def test_a_figure_that_was_measured_again_and_again_is_one_line():
    times = [("G7b push: without a leader", float(seconds), "s", "") for seconds in (1, 2, 9)]
    gap = ("G7b push: gap (20 times): max", 0.25, "s", "<= 1 s")
    text = page.text({"cluster": record(*times, gap)})
    assert line_of(text, "| push: without") == "| push: without a leader | 3 | 2 s | 9 s |"
    assert line_of(text, "| push: gap") == "| push: gap: max | <= 1 s | 20 |  | 0.25 s | held |"
    row = line_of(text, "| G7b |")
    assert "| 0.25 s (push: gap: max) | held |" in row


def test_a_value_beyond_its_bound_is_missed_and_does_not_look_like_it():
    figures = [
        ("G9 close(), idle", 0.01, "s", "<= 1.0 s"),
        ("G9 close(), slow", 1.0011, "s", "<= 1.0 s"),
    ]
    text = page.text({"time": record(*figures)})
    assert "| 1.001 s, the worst of 2 (close(), slow) | **missed** |" in line_of(text, "| G9 |")
    assert line_of(text, "| close(), idle").endswith("| held |")
    assert line_of(text, "| close(), slow").endswith("| **missed** |")


def test_a_goal_is_held_when_all_of_its_parts_have_passed():
    confirmed = ("G5 ordered, wrong messages", 0, "", "0")
    part = record(confirmed)
    row = line_of(page.text({"consume": part}), "| G5 |")
    assert "part `watches` not yet measured | in part |" in row
    row = line_of(page.text({"consume": part, "watches": record()}), "| G5 |")
    assert "no failure in part `watches` | held |" in row
    assert "| not yet measured |" in line_of(page.text({}), "| G5 |")


def test_long_numbers_are_read_in_thousands():
    text = page.text({"publish": record(("G1 missing of 2005650 confirmed", 0, "", "0"))})
    assert "missing of 2,005,650 confirmed" in line_of(text, "| G1 |")
