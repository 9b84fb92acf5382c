"""What the records say of a goal: repeated figures as one, each with what it is held to."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from typing import Any, NamedTuple

_BOUND = re.compile(r"(<=|>=|) *(-?[\d.]+)( ?[A-Za-z%/]+)?$")
_TIMES = re.compile(r" \((\d+) times\)")
_LONG = re.compile(r"(?<![\d.,])\d{4,}(?![\d.,]\d)")


class Bound(NamedTuple):
    """What a figure is held to: at most, at least, or exactly a number."""

    how: str
    number: float

    def holds(self, value: float) -> bool:
        """Whether a value is within it."""
        if self.how == "<=":
            return value <= self.number
        return value >= self.number if self.how == ">=" else value == self.number

    def worst(self, values: Iterable[float]) -> float:
        """The value that is nearest to breaking it, or furthest beyond it."""
        return min(values) if self.how == ">=" else max(values, key=self._distance)

    def _distance(self, value: float) -> float:
        return value if self.how == "<=" else abs(value - self.number)


def bound_of(goal: str) -> Bound | None:
    """Read a goal such as "<= 1.0 s", ">= 98" or "0"; None: it has no number to be held to."""
    found = _BOUND.match(goal)
    return None if found is None else Bound(found[1], float(found[2]))


class Figure(NamedTuple):
    """All that one part measured under one name."""

    name: str
    unit: str
    bound: Bound | None
    times: int
    """How often it was measured behind each value: a value may be the greatest of many."""
    values: list[float]

    @property
    def in_all(self) -> int:
        """How often it was measured in all."""
        return self.times * len(self.values)

    @property
    def worst(self) -> float:
        """The value to judge by; the greatest where there is no bound."""
        return max(self.values) if self.bound is None else self.bound.worst(self.values)

    @property
    def median(self) -> float:
        """The value in the middle."""
        return statistics.median(self.values)

    @property
    def is_held(self) -> bool:
        """Whether every value is within the bound."""
        return self.bound is None or all(map(self.bound.holds, self.values))


def figures_of(code: str, record: dict[str, Any]) -> list[Figure]:
    """Return the figures of a goal in the record of one part, in order of coming."""
    found: dict[tuple[str, str, Bound | None, int], Figure] = {}
    for each in record["figures"]:
        of, _, name = each["figure"].partition(" ")
        if of == code:
            times = _TIMES.search(name)
            many = int(times[1]) if times else 1
            key = _TIMES.sub("", name), each["unit"], bound_of(each["goal"]), many
            found.setdefault(key, Figure(*key, [])).values.append(each["value"])
    return list(found.values())


def number(value: float, unit: str = "") -> str:
    """Write a value as people read it: 2,005,650 and 0.545 s; a second and a little is not 1 s."""
    text = f"{value:.3g}"
    if value == int(value) or abs(value) >= 1000:
        text = f"{value:,.0f}"
    elif float(text) == int(float(text)):
        text = f"{value:.4g}"
    return f"{text} {unit}".strip()


def with_commas(text: str) -> str:
    """Write the long numbers of a name as people read them."""
    return _LONG.sub(lambda found: f"{int(found[0]):,}", text)
