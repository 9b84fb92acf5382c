"""Counters that the SDK asks for when it exports: to count costs an operation next to nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jetsync._locks import lock
from jetsync.otel.shapes import Shape

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

__all__ = ["Tally"]


class Tally:
    """Numbers of messages by shape and error. Thread-safe."""

    def __init__(self, meter: Meter, name: str, unit: str, description: str) -> None:
        self._lock = lock("otel/tally.py _lock")
        self._counts: dict[tuple[Shape, str | None], int] = {}
        meter.create_observable_counter(name, [self._observe], unit, description)

    def add(self, number: int, shape: Shape, error: str | None) -> None:
        """Count messages."""
        key = shape, error
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + number

    def _observe(self, options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        with self._lock:
            counts = list(self._counts.items())
        # A shape that was forgotten and made again has the labels of the first one.
        totals: dict[frozenset[tuple[str, Any]], int] = {}
        for (shape, error), number in counts:
            more = () if error is None else (("error.type", error),)
            labels = frozenset((*shape.shared.items(), *more))
            totals[labels] = totals.get(labels, 0) + number
        return [Observation(number, dict(labels)) for labels, number in totals.items()]
