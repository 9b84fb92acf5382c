"""What runs of ``benchmarks.links`` measured, for the page of figures."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent / "record.json"
GOAL = 0.8
WITHOUT_GOAL = {"fetch": "a round trip for each call, by its contract"}


class Row(NamedTuple):
    """One round of one way: units a second without delay and with it, and how many round trips the
    long link cost beside the bytes."""

    near: float
    far: float
    trips: float


def run_of(ways: Mapping[str, Sequence[Row]], **about: Any) -> dict[str, Any]:
    """Return a run as it is kept: the medians of the rounds of each way, and how it was made."""
    return {
        **about,
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "rounds": max(map(len, ways.values())),
        "ways": {
            name: {
                "near": statistics.median(row.near for row in rows),
                "far": statistics.median(row.far for row in rows),
                "ratio": statistics.median(row.far / row.near for row in rows),
                "trips": statistics.median(row.trips for row in rows),
            }
            for name, rows in ways.items()
        },
    }


def keep(run: dict[str, Any]) -> None:
    """Keep a run in place of the one of the same slowness, round trip and number of messages."""

    def kind(one: dict[str, Any]) -> tuple[float, ...]:
        return one["slow"], one["rtt"], one["messages"]

    runs = [one for one in _runs() if kind(one) != kind(run)]
    FILE.write_text(json.dumps([run, *runs], indent=1) + "\n")


def _runs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else []
    return sorted(found, key=lambda run: (-run["slow"], run["messages"]))


def rows() -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the page's table: each way, and what it keeps in each run."""
    runs = _runs()
    head = ["way", *(f"run {number}" for number in range(1, len(runs) + 1))]
    names = {name: None for run in runs for name in run["ways"]}
    return head, [[f"`{name}`", *(_cell(run, name) for run in runs)] for name in names]


def _cell(run: dict[str, Any], name: str) -> str:
    way = run["ways"].get(name)
    if way is None:
        return "-"
    missed = name not in WITHOUT_GOAL and way["ratio"] < GOAL
    return f"{way['ratio']:.2f}, {way['trips']:.1f} round trips" + (" (missed)" if missed else "")


def goal() -> tuple[str, str]:
    """Return what was measured beside the goal, and the verdict: the least of all ways that have
    it, in slow motion."""
    for run in _runs():
        kept = {name: way["ratio"] for name, way in run["ways"].items() if name not in WITHOUT_GOAL}
        name = min(kept, key=lambda each: kept[each])
        text = f"{kept[name]:.2f}x (`{name}`, the least of {len(kept)}), below"
        return text, "met" if kept[name] >= GOAL else "missed"
    return "not recorded; `python -m benchmarks.links` measures it", ""


def about() -> str:
    """Say in one line for each run how it was made."""
    return "\n".join(
        f"{number}. {run['messages']:,} messages of {run['size']} bytes, objects of 64 MiB, "
        f"{run['rtt'] * 1000:g} ms of round trip, "
        + (f"{run['slow']:g} times slower" if run["slow"] > 1 else "at full speed")
        + f", the median of {run['rounds']} rounds in turns, Python {run['python']}, "
        f"{run['processors']} processors whose load was {run['load']:g} at the end."
        for number, run in enumerate(_runs(), 1)
    )
