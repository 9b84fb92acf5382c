"""What one run of ``benchmarks.spark.plain`` measured, for the page of figures."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent / "record.json"


class Goal(NamedTuple):
    """Two cases of one run and what their ratio has to be; or one, and its figure itself."""

    text: str
    case: str
    beside: str
    figure: str  # "speed", or "cpu" for the CPU of this process
    bound: float
    at_most: bool = False


GOALS = (
    Goal("source, of the server's delivery to a bare client", "source", "bare", "speed", 0.85),
    Goal("the same, each side on a processor of its own", "source pin", "bare pin", "speed", 0.85),
    Goal("source, link with 10 ms, of the same without", "source far", "source near", "speed", 0.8),
    Goal("sink, link with 10 ms, of the same without", "sink far", "sink near", "speed", 0.8),
    Goal("sink with content ids, times nats-py awaiting each", "sink", "peer", "speed", 15),
    Goal("the same, times nats-py gathered by 500", "sink", "peer gathered", "speed", 6),
    Goal("the demo's whole warm batches, rows/s from stream to parquet", "demo", "", "speed", 80e3),
    Goal("atomic chunks, CPU of the client, times plain", "atomic", "sink", "cpu", 1.5, True),
    Goal("keys looked up by kv_lookup, times one by one", "lookup", "lookup each", "speed", 10),
)
CASES = {
    "bare": "server to a bare client",
    "source": "source",
    "bare pin": "server to a bare client, pinned",
    "source pin": "source, pinned",
    "source near": "source, link",
    "source far": "source, link with rtt",
    "sink": "sink",
    "sink near": "sink, link",
    "sink far": "sink, link with rtt",
    "atomic": "sink, atomic",
    "peer": "nats-py, plain",
    "peer gathered": "nats-py, gathered",
    "demo": "demo, stream to parquet",
    "lookup": "look up, kv_lookup",
    "lookup each": "look up, one by one",
}


def keep(cases: dict[str, dict[str, float]], about: dict[str, Any]) -> None:
    """Write what was measured: for each case its speed, and CPU seconds for a million rows.

    What earlier runs measured of other cases stays.
    """
    machine = {"processors": os.cpu_count(), "python": platform.python_version()}
    busy = {"load": round(os.getloadavg()[0], 1)}
    runs = [{**about, **machine, **busy, "cases": cases}]
    for run in _runs():
        left = {name: figures for name, figures in run["cases"].items() if name not in cases}
        if left:
            runs.append({**run, "cases": left})
    FILE.write_text(json.dumps(runs, indent=1) + "\n")


def _runs() -> list[dict[str, Any]]:
    """Return the runs that are kept, the newest first."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text())
    return found


def rows() -> list[list[str]]:
    """Return the rows of the page's table: what, the goal, what was measured, whether it is met.

    Both sides of a ratio are of one run.
    """
    found = []
    for goal in GOALS:
        for number, run in enumerate(_runs(), 1):
            try:
                ours = run["cases"][CASES[goal.case]][goal.figure]
                theirs = run["cases"][CASES[goal.beside]][goal.figure] if goal.beside else 1
            except KeyError:
                continue
            ratio = ours / theirs
            met = ratio <= goal.bound if goal.at_most else ratio >= goal.bound
            shown, bound = (
                (f"{ratio:.2f}", f"{goal.bound:g}")
                if goal.beside
                else (f"{ratio:,.0f}", f"{goal.bound:,.0f}")
            )
            sign = "at most" if goal.at_most else "at least"
            verdict = "yes" if met else "no"
            found.append([goal.text, f"{sign} {bound}", shown, verdict, str(number)])
            break
    return found


def _slow(run: dict[str, Any]) -> str:
    """Say that the links were shown in slow motion, if they were."""
    slow = run.get("slow", 1.0)
    return f" Links in slow motion, {slow:g} times slower." if slow > 1 else ""


def _starts(run: dict[str, Any]) -> str:
    """Say how long Spark took to start, where that was measured."""
    demo = run["cases"].get(CASES["demo"])
    if demo is None:
        return ""
    return f" Spark started in {demo['start']} s, its first round took {demo['first']} s."


def about() -> str:
    """Say in one line for each run how it was made."""
    return "\n".join(
        f"{number}. {run['rows']:,} rows of {run['size']} bytes, the median of {run['rounds']} "
        f"rounds in turns, Python {run['python']}, {run['processors']} processors whose load was "
        f"{run['load']:g} at the end.{_slow(run)}{_starts(run)}"
        for number, run in enumerate(_runs(), 1)
    )
