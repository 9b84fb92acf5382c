"""From rows of measurements to medians, spreads and verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.macro.workloads import GROWTH

Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """The median of some rounds and how far apart they were."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure | None:
        """Return the figure of these values, or None when there are none."""
        found = sorted(values)
        if not found:
            return None
        return cls(statistics.median(found), found[0], found[-1], len(found))

    @property
    def spread(self) -> float:
        """Half of the distance from the lowest to the highest, as a share of the median."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0

    def __str__(self) -> str:
        return f"{readable(self.median)} ±{self.spread:.0%}"


def readable(value: float) -> str:
    """Three digits that matter, thousands apart."""
    if value >= 1000:
        return f"{round(value, 3 - len(str(int(value)))):,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def rate(row: Row) -> float:
    """Messages per second."""
    return float(row["messages"] / row["wall"])


def cpu(row: Row) -> float:
    """CPU seconds of the client per million messages."""
    return float(row["cpu"] * 1e6 / row["messages"])


def server_cpu(row: Row) -> float:
    """CPU seconds of the server per million messages."""
    return float(row["server_cpu"] * 1e6 / row["messages"])


def field(name: str) -> Callable[[Row], float]:
    """Read a figure that only some workloads have."""
    return lambda row: float(row[name])


def per_gib(row: Row) -> float:
    """CPU seconds of the client per GiB of payload; the size is the point."""
    return float(row["cpu"] * 2**30 / (row["messages"] * row["point"]))


class Table:
    """Rows of one or more runs, looked up by what was measured."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)

    def figure(
        self, measure: Callable[[Row], float], workload: str, peer: str, size: int = 128
    ) -> Figure | None:
        """Return the figure over all rounds."""
        return Figure.of(
            measure(row)
            for row in self.rows
            if (row["workload"], row["peer"], row["size"]) == (workload, peer, size)
        )

    def ratio(self, workload: str, peer: str, other: str, size: int = 128) -> float | None:
        """CPU of ``peer`` in CPUs of ``other``: the median over rounds that have both."""
        mine = self._by_round(workload, peer, size)
        theirs = self._by_round(workload, other, size)
        both = [mine[n] / theirs[n] for n in mine if theirs.get(n)]
        return statistics.median(both) if both else None

    def _by_round(self, workload: str, peer: str, size: int) -> dict[int, float]:
        return {
            row["round"]: cpu(row)
            for row in self.rows
            if (row["workload"], row["peer"], row["size"]) == (workload, peer, size)
        }


def growth_points(result: dict[str, Any], name: str, peer: str = "jetsync") -> dict[int, Figure]:
    """The figure of each point that was measured. Rows of old results are jetsync's."""
    measure = {
        "CPU s per million messages": cpu,
        "CPU us per subscription": cpu,
        "CPU us per connection": cpu,
        "CPU us per key": cpu,
        "CPU us per stream": cpu,
        "CPU us per header": cpu,
        "requests per second": rate,
        "CPU s per GiB": per_gib,
        "bytes per subscription": field("bytes_each"),
    }[GROWTH[name].unit]
    found = {}
    for point in GROWTH[name].points:
        figure = Figure.of(
            measure(row)
            for row in result["growth"]
            if (row["growth"], row["point"], row.get("peer", "jetsync")) == (name, point, peer)
        )
        if figure:
            found[point] = figure
    return found
