"""Make ``docs/reliability.md``: the promises, and what was measured for each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.soak.measured import Bound, Figure, figures_of, number, with_commas
from tests.soak.parts import PARTS
from tests.soak.promises import GOALS, PROMISES, Goal

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reliability.md"
RECORDS = Path(__file__).parent / "records"

HEAD = """\
# Reliability: what is promised and what was measured

This page is made by `python -m tests.soak.page` from the records of `make soak`, the long form of
the tests; nothing on it is typed by hand but the promises. Each commit is checked by the short form
of the same tests (`make test`), which asserts the promised bound on the median and allows a busy
machine some time more on the greatest value; the names of its figures say so. The long form allows
nothing.

## Promises

The tests refer to them by these codes.

"""

TABLE = """
## Promised and measured

Codes such as G12 in tests stand for a row. "Measured" is the worst value of the long form for
each bound, and of how many figures; every one is [below](#every-figure). A row is held when every
part of the long form that shows it passed and each figure is within its bound; "in part" names what
is missing.

| | promised | measured | | size | date, commit |
|---|---|---|---|---|---|
"""

LEFT_OUT = """
Two goals of the design are no rows. That validation and accounting cost at most 5 % of the
throughput (G21) cannot be measured by leaving them out, since nothing leaves them out: every byte
that a user or a publisher supplies is checked in the same pass that encodes or parses it. What
keeps the hot path from growing is `make watch`, which counts the instructions of each message on
every commit. Rates through a link of 10 ms (G29) are on [Performance](performance.md).
"""

RUNS = """
## Runs

`make soak PART=name` runs one part, `make soak` all of them; each takes at most 90 minutes on two
processors.

| part | minutes | Python | processors | date | commit |
|---|--:|---|--:|---|---|
"""

DETAILS = """
## Every figure

A figure that was measured several times is one line: how often, its median where each value was
kept, and its worst value. "Beside it" stands what nothing is promised about: it tells how hard the
test was.
"""

HELD, MISSED, IN_PART, NOT_YET = "held", "**missed**", "in part", "not yet measured"


def records() -> dict[str, dict[str, Any]]:
    """Return what was kept of each part that was run."""
    return {
        part: json.loads((RECORDS / f"{part}.json").read_text())
        for part in PARTS
        if (RECORDS / f"{part}.json").exists()
    }


class Row:
    """What is known of one goal."""

    def __init__(self, code: str, goal: Goal, kept: dict[str, dict[str, Any]]) -> None:
        self.code, self.goal = code, goal
        by_part = {part: figures_of(code, record) for part, record in kept.items()}
        self.figures = [one for part in by_part.values() for one in part]
        self.missing = [part for part in goal.parts if part not in kept]
        self.silent = [part for part in goal.parts if part in kept and not by_part[part]]
        used = [part for part in kept if by_part[part] or part in goal.parts]
        self.when = sorted({f"{kept[part]['date']}, {kept[part]['commit']}" for part in used})

    @property
    def mark(self) -> str:
        """Whether the promise is held."""
        if not all(one.is_held for one in self.figures):
            return MISSED
        if not self.missing:
            return HELD
        return IN_PART if self.when else NOT_YET

    def summary(self) -> str:
        """The worst value for each bound, and which parts tell nothing more than that they passed,
        or were not run to a good end."""
        groups: dict[tuple[Bound, str], list[Figure]] = {}
        for one in self.figures:
            if one.bound is not None:
                groups.setdefault((one.bound, one.unit), []).append(one)
        texts = [_worst(bound, figures) for (bound, _), figures in groups.items()]
        if not texts and len(self.silent) < len(self.goal.parts) - len(self.missing):
            texts.append("no failure")
        texts += [f"no failure in part `{part}`" for part in self.silent]
        texts += [f"part `{part}` {NOT_YET}" for part in self.missing]
        return "; ".join(texts) or "no failure in the check of each commit"

    def line(self) -> str:
        """The row of the table."""
        goal, when = self.goal, "; ".join(self.when)
        known = f"{self.code} | {goal.promised} | {self.summary()} | {self.mark}"
        return f"| {known} | {goal.size} | {when} |\n"

    def details(self) -> str:
        """The tables of all its figures."""
        held = [one for one in self.figures if one.bound is not None]
        beside = [one for one in self.figures if one.bound is None]
        text = f"\n### {self.code}: {self.goal.promised}\n"
        if held:
            text += "\n| figure | bound | times | median | worst | |\n|---|--:|--:|--:|--:|---|\n"
            for one in held:
                assert one.bound is not None
                bound = f"{one.bound.how} {number(one.bound.number, one.unit)}".strip()
                mark = HELD if one.is_held else MISSED
                text += f"| {with_commas(one.name)} | {bound} | {_values(one)} | {mark} |\n"
        if beside:
            text += "\n| beside it | times | median | greatest |\n|---|--:|--:|--:|\n"
            for one in beside:
                text += f"| {with_commas(one.name)} | {_values(one)} |\n"
        return text


def _values(one: Figure) -> str:
    median = number(one.median, one.unit) if len(one.values) > 1 else ""
    return f"{one.in_all:,} | {median} | {number(one.worst, one.unit)}"


def _worst(bound: Bound, figures: list[Figure]) -> str:
    """The worst value of figures with the same bound, and whose it is."""
    value = bound.worst(one.worst for one in figures)
    text = number(value, figures[0].unit)
    named = [with_commas(one.name) for one in figures if one.worst == value]
    if len(figures) == 1:
        return f"{text} ({named[0]})"
    if len(named) == len(figures):
        return f"{text} in each of {len(figures)}"
    return f"{text}, the {'least' if bound.how == '>=' else 'worst'} of {len(figures)} ({named[0]})"


def text(kept: dict[str, dict[str, Any]] | None = None) -> str:
    """Return the whole page, of the records that are kept."""
    kept = records() if kept is None else kept
    promises = "".join(f"- **{code}** {promise}\n" for code, promise in PROMISES.items())
    rows = [Row(code, goal, kept) for code, goal in GOALS.items()]
    runs = ""
    for part in PARTS:
        if record := kept.get(part):
            runs += (
                f"| {part} | {record['minutes']:g} | {record['python']} | "
                f"{record['processors']} | {record['date']} | {record['commit']} |\n"
            )
        else:
            runs += f"| {part} | {NOT_YET} | | | | |\n"
    table = "".join(row.line() for row in rows)
    details = "".join(row.details() for row in rows if row.figures)
    return HEAD + promises + TABLE + table + LEFT_OUT + RUNS + runs + DETAILS + details


if __name__ == "__main__":
    PAGE.write_text(text())
