"""Measurement: one number that a connection, consumer or worker gives to a collector."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["BOUNDS", "Measurement", "cumulated"]

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets of durations, in seconds."""


@dataclass(frozen=True)
class Measurement:
    """A number with its name. Names are those of Prometheus: ``jetsync_``, base units, counters
    end in ``_total``. Labels name connections, streams and consumers, never subjects or keys, of
    which there may be millions.

    For durations, ``value`` is the sum and ``count`` their number; ``buckets`` says, if that is
    known, how many were at most as long as each bound: ``((0.005, 3), (0.01, 7), ...)``."""

    name: str
    help: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    count: int | None = None
    buckets: tuple[tuple[float, int], ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether the number only grows; others go up and down."""
        return self.name.endswith("_total")

    @property
    def kind(self) -> str:
        """The type of the metric: "counter", "gauge", "histogram" or "summary"."""
        if self.count is not None:
            return "histogram" if self.buckets else "summary"
        return "counter" if self.is_counter else "gauge"


def cumulated(counts: Sequence[int]) -> tuple[tuple[float, int], ...]:
    """Return the buckets of a measurement. ``counts`` has how many durations lie between two of the
    ``BOUNDS`` each."""
    return tuple(zip(BOUNDS, itertools.accumulate(counts[: len(BOUNDS)]), strict=True))
