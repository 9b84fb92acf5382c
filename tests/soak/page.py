"""Make ``docs/reliability.md``: the promises, and what was measured for each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.soak.parts import PARTS
from tests.soak.promises import GOALS, PROMISES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reliability.md"
RECORDS = Path(__file__).parent / "records"

NOT_YET = "not yet measured"

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
## Figures

Codes such as G12 in tests stand for a row. "Size" is the long form's. "Held" stands where all tests
of the named part passed and its commit kept no figure of the row; a part that has not been run to a
good end is named as "not yet measured".

| | promised | size | measured | date, commit |
|---|---|---|---|---|
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


def records() -> dict[str, dict[str, Any]]:
    """Return what was kept of each part that was run."""
    return {
        part: json.loads((RECORDS / f"{part}.json").read_text())
        for part in PARTS
        if (RECORDS / f"{part}.json").exists()
    }


def measured(code: str, kept: dict[str, dict[str, Any]]) -> tuple[str, str]:
    """Return what is known of one goal as text, and when it was measured."""
    found, when, told = [], set(), set()
    for part, record in kept.items():
        for figure in record["figures"]:
            name = figure["figure"]
            if name.split()[0] == code:
                value = f"{figure['value']:g} {figure['unit']}".strip()
                found.append(f"{name.removeprefix(code).strip()}: {value}")
                when.add(f"{record['date']}, {record['commit']}")
                told.add(part)
    for part in GOALS[code].parts:
        if part not in kept:
            found.append(f"part `{part}` {NOT_YET}")
        elif part not in told:
            found.append(f"held in part `{part}`")
            when.add(f"{kept[part]['date']}, {kept[part]['commit']}")
    if not GOALS[code].parts and not found:
        found.append("held by the check of each commit")
    return "; ".join(dict.fromkeys(found)), "; ".join(sorted(when))


def text() -> str:
    """Return the whole page."""
    kept = records()
    promises = "".join(f"- **{code}** {promise}\n" for code, promise in PROMISES.items())
    rows = ""
    for code, goal in GOALS.items():
        what, when = measured(code, kept)
        rows += f"| {code} | {goal.promised} | {goal.size} | {what} | {when} |\n"
    runs = ""
    for part in PARTS:
        if record := kept.get(part):
            runs += (
                f"| {part} | {record['minutes']:g} | {record['python']} | "
                f"{record['processors']} | {record['date']} | {record['commit']} |\n"
            )
        else:
            runs += f"| {part} | {NOT_YET} | | | | |\n"
    return HEAD + promises + TABLE + rows + LEFT_OUT + RUNS + runs


if __name__ == "__main__":
    PAGE.write_text(text())
