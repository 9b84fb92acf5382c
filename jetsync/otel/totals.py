"""Totals: the numbers of messages and the durations, which the SDK gets when it collects.

An ``add`` or ``record`` of the SDK costs as much as half a span: it copies and sorts the labels and
hashes them anew each time. So what calls leave behind are notes, which are read many at once.
Numbers of messages are summed here, so they are exact. A histogram takes each duration by itself,
so of many operations a second only a sample is recorded.
"""

from __future__ import annotations

import math
import random
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from jetsync._locks import rlock
from jetsync.client import sum_notes, take_notes
from jetsync.observe import About, Note
from jetsync.otel.shapes import Shapes

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

__all__ = ["Pace", "Totals"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Bounds of the buckets of durations, as the conventions for metrics give them."""
_COUNTERS = {
    "publish": "sent",
    "request": "sent",
    "publish_many": "sent",
    "receive": "consumed",
    "process": "consumed",
}
"""The counter of the messages that an operation moves, by its kind."""
_MOST_LABELS = 1000
"""Sets of labels that are remembered; with more of them the numbers of all others are one, under
the label that the SDK has for it."""
_OVERFLOW: frozenset[Any] = frozenset({("otel.metric.overflow", True)})


class Pace:
    """Lets so many through a second, and a second's worth at once after a rest. For one thread at a
    time."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = self._room = max(rate, 1.0)
        self._at = monotonic()

    def let(self, many: int) -> int:
        """Return how many of so many are let through now."""
        now = monotonic()
        room = min(self._most, self._room + (now - self._at) * self._rate)
        passed = min(many, math.floor(room))
        self._room, self._at = room - passed, now
        return passed


class Totals:
    """The counters and histograms of one provider. Thread-safe."""

    def __init__(self, provider: MeterProvider, version: str) -> None:
        from opentelemetry import context, metrics, trace

        self._is_set = not _is_empty(provider)
        self._provider_now = metrics.get_meter_provider
        self._observation = metrics.Observation
        self._no_example = trace.set_span_in_context(trace.INVALID_SPAN, context.Context())
        self.pace: Pace | None = None
        """How many durations are recorded; None: all of them."""
        # Reentrant: a signal handler may publish in the middle of a count.
        self._lock = rlock("otel/totals.py _lock")
        self._notes: list[tuple[Shapes, deque[Note]]] = []
        self._numbers: dict[str, dict[frozenset[Any], int]] = {"sent": {}, "consumed": {}}
        meter = metrics.get_meter("jetsync", version, provider)
        for name, text in (("sent", "were sent"), ("consumed", "were delivered")):
            meter.create_observable_counter(
                f"messaging.client.{name}.messages",
                [self._reader(name)],
                "{message}",
                f"Messages that {text}",
            )
        self._duration, self._processing = (
            meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=_SECONDS)
            for name, text in (
                ("messaging.client.operation.duration", "Duration of messaging operations"),
                ("messaging.process.duration", "Duration of processing a message"),
            )
        )

    @classmethod
    def of(cls, provider: MeterProvider | None, version: str) -> Totals:
        """Return the totals of a provider, the global one by default: it has each instrument once,
        also when spans are turned off and on again."""
        from opentelemetry import metrics

        found = metrics.get_meter_provider() if provider is None else provider
        with _making:
            if found not in _made:
                _made[found] = cls(found, version)
            return _made[found]

    def notes(self, shapes: Shapes) -> deque[Note]:
        """Return a new place for notes, which are read by these shapes."""
        notes: deque[Note] = deque()
        self._notes.append((shapes, notes))
        return notes

    def wanted(self) -> bool:
        """Whether the program has a provider of meters, by now."""
        if not self._is_set:
            self._is_set = not _is_empty(self._provider_now())
        return self._is_set

    def read_all(self) -> None:
        """Read the notes that wait."""
        for shapes, notes in self._notes:
            if taken := take_notes(notes):
                self.read(shapes, taken)

    def read(self, shapes: Shapes, notes: list[Note], context: Context | None = None) -> None:
        """Count messages and record durations. ``context``: that of their span, which the SDK may
        show as an example."""
        sums = sum_notes(notes)
        with self._lock:
            for (about, error), count in sums.items():
                self._count(shapes, about, error, count)
            recorded = len(notes) if self.pace is None else self.pace.let(len(notes))
        if recorded < len(notes):
            notes = random.sample(notes, recorded) if recorded else []  # as nearly always
        for about, error, _, seconds in notes:
            histogram = self._processing if about[0] == "process" else self._duration
            labels = shapes.of(about).shared
            if error is not None:
                labels = {**labels, "error.type": error}
            histogram.record(seconds, labels, context or self._no_example)

    def _count(self, shapes: Shapes, about: About, error: str | None, count: int) -> None:
        counter, failed = _COUNTERS.get(about[0]), error is not None
        if counter is None or not count or (failed and about[0] in ("receive", "publish_many")):
            return
        numbers, labels = self._numbers[counter], shapes.of(about).labels
        if error is not None:
            labels |= {("error.type", error)}
        if len(numbers) >= _MOST_LABELS and labels not in numbers:
            labels = _OVERFLOW
        numbers[labels] = numbers.get(labels, 0) + count

    def _reader(self, name: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        def read(options: CallbackOptions) -> Iterator[Observation]:
            self.read_all()
            with self._lock:
                numbers = list(self._numbers[name].items())
            for labels, count in numbers:
                attributes: Mapping[str, Any] = dict(labels)
                yield self._observation(count, attributes)

        return read


def _is_empty(provider: MeterProvider) -> bool:
    """Whether it is of the API alone, which measures nothing."""
    return type(provider).__module__.startswith("opentelemetry.metrics")


_making = rlock("otel/totals.py _making")
_made: weakref.WeakKeyDictionary[Any, Totals] = weakref.WeakKeyDictionary()
