"""What one run of ``benchmarks.spark.plain`` measured, for the page of figures."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent / "record.json"


class Goal(NamedTuple):
    """Two cases of one run and what their ratio has to be."""

    text: str
    case: str
    beside: str
    figure: str  # "speed", or "cpu" for the CPU of this process
    bound: float
    at_most: bool = False


GOALS = (
    Goal("source, of the server's delivery to a bare client", "source", "bare", "speed", 0.85),
    Goal("source, link with 10 ms, of the same without", "source far", "source near", "speed", 0.8),
    Goal("sink, link with 10 ms, of the same without", "sink far", "sink near", "speed", 0.8),
    Goal("sink with content ids, times nats-py awaiting each", "sink", "peer", "speed", 15),
    Goal("the same, times nats-py gathered by 500", "sink", "peer gathered", "speed", 6),
    Goal("atomic chunks, CPU of the client, times plain", "atomic", "sink", "cpu", 1.5, True),
)
CASES = {
    "bare": "server to a bare client",
    "source": "source",
    "source near": "source, link",
    "source far": "source, link with rtt",
    "sink": "sink",
    "sink near": "sink, link",
    "sink far": "sink, link with rtt",
    "atomic": "sink, atomic",
    "peer": "nats-py, plain",
    "peer gathered": "nats-py, gathered",
}


def keep(cases: dict[str, dict[str, float]], about: dict[str, Any]) -> None:
    """Write what was measured: for each case its speed, and CPU seconds for a million rows."""
    machine = {"processors": os.cpu_count(), "python": platform.python_version()}
    busy = {"load": round(os.getloadavg()[0], 1)}
    kept = {**about, **machine, **busy, "cases": cases}
    FILE.write_text(json.dumps(kept, indent=1) + "\n")


def rows() -> list[list[str]]:
    """Return the rows of the page's table: what, the goal, what was measured, whether it is met."""
    cases = json.loads(FILE.read_text())["cases"]
    found = []
    for goal in GOALS:
        try:
            ours, theirs = (cases[CASES[name]][goal.figure] for name in (goal.case, goal.beside))
        except KeyError:
            continue
        ratio = ours / theirs
        met = ratio <= goal.bound if goal.at_most else ratio >= goal.bound
        sign = "at most" if goal.at_most else "at least"
        found.append([goal.text, f"{sign} {goal.bound:g}", f"{ratio:.2f}", "yes" if met else "no"])
    return found


def about() -> str:
    """Say in one sentence how the record was made."""
    kept = json.loads(FILE.read_text())
    return (
        f"{kept['rows']:,} rows of {kept['size']} bytes, the median of {kept['rounds']} rounds in "
        f"turns, Python {kept['python']}, {kept['processors']} processors whose load was "
        f"{kept['load']:g} at the end."
    )
