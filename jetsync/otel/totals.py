"""Totals: the numbers of messages and the durations, which the SDK gets when it collects.

An ``add`` or ``record`` of the SDK costs as much as half a span: it copies and sorts the labels and
hashes them anew each time. Adding to a number in a dict costs a small part of that, so numbers of
messages are exact. A histogram takes each duration by itself, so of many operations a second only a
sample is recorded; and many durations recorded one after the other cost less than each by itself,
when the processor has the code and the data of the SDK in no cache any more.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from jetsync._locks import rlock

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Histogram, MeterProvider, Observation

__all__ = ["Pace", "Totals"]

_MOST_LABELS = 1000
"""Sets of labels that are remembered; with more of them the numbers of all others are one, under
the label that the SDK has for it."""
_OVERFLOW: frozenset[Any] = frozenset({("otel.metric.overflow", True)})
_PROVIDER_CHECK = 0.05
"""Seconds between two checks whether the program has a provider."""
_KEPT = 64
"""Durations that are kept: to record them takes less than a millisecond."""


class Pace:
    """Lets so many through a second, and a second's worth at once after a rest. What comes does not
    decide on itself: what came before it does. Threads may pass at the same moment."""

    def __init__(self, rate: float) -> None:
        self._step = 1.0 / rate
        self._due = 0.0

    def lets(self) -> bool:
        """Whether the next one is let through."""
        now, due = monotonic(), self._due
        if due - now > 1.0:
            return False
        self._due = (due if due > now else now) + self._step
        return True


class Totals:
    """The counters of messages, sent and consumed, and the durations that are to be recorded.
    Thread-safe."""

    def __init__(self, provider: MeterProvider, version: str) -> None:
        from opentelemetry import metrics, trace

        self._is_set = not _is_empty(provider)
        self.unwanted_until: float = 0.0
        """Until when nothing is to be counted for sure, on the clock of ``time.monotonic``."""
        self._provider_now = metrics.get_meter_provider
        self._observation = metrics.Observation
        self._current = trace.get_current_span
        self.pace: Pace | None = None
        """Which durations are recorded; None: all of them."""
        self._durations: deque[tuple[Histogram, float, Mapping[str, Any]]] = deque()
        # Reentrant: a signal handler may publish in the middle of a count.
        self._lock = rlock("otel/totals.py _lock")
        self._numbers: dict[str, dict[frozenset[Any], int]] = {}
        meter = metrics.get_meter("jetsync", version, provider)
        for name, text in (("sent", "were sent"), ("consumed", "were delivered")):
            self._numbers[name] = {}
            meter.create_observable_counter(
                f"messaging.client.{name}.messages",
                [self._reader(name)],
                "{message}",
                f"Messages that {text}",
            )

    @classmethod
    def of(cls, provider: MeterProvider | None, version: str) -> Totals:
        """Return the totals of a provider, the global one by default: it has each counter once,
        also when spans are turned off and on again."""
        from opentelemetry import metrics

        found = metrics.get_meter_provider() if provider is None else provider
        with _making:
            if found not in _made:
                _made[found] = cls(found, version)
            _made[found].pace = None
            return _made[found]

    def wanted(self) -> bool:
        """Whether the program has a provider of meters; until then nothing is counted. One that it
        sets later is found within ``_PROVIDER_CHECK`` seconds: to ask for it takes as long as all
        the rest of an operation that is left out."""
        if not self._is_set and (now := monotonic()) >= self.unwanted_until:
            self._is_set = not _is_empty(self._provider_now())
            if not self._is_set:
                self.unwanted_until = now + _PROVIDER_CHECK
        return self._is_set

    def note(
        self,
        histogram: Histogram,
        seconds: float,
        labels: Mapping[str, Any],
        counter: str | None,
        count: int,
        items: frozenset[Any],
        is_example: bool,
    ) -> None:
        """Note a duration, and a number of messages for the ``counter`` "sent" or "consumed".

        ``items`` are those of ``labels``. A duration within a span that is sampled is recorded at
        once where it ``is_example``, for the SDK may show it so, else together with others.
        """
        if self.pace is not None and not self.pace.lets():
            pass
        elif is_example and self._current().get_span_context().trace_flags.sampled:
            histogram.record(seconds, labels)
        else:
            self._durations.append((histogram, seconds, labels))
            if len(self._durations) >= _KEPT:
                self._record_all()
        if counter is not None:
            with self._lock:
                numbers = self._numbers[counter]
                if len(numbers) >= _MOST_LABELS and items not in numbers:
                    items = _OVERFLOW
                numbers[items] = numbers.get(items, 0) + count

    def _record_all(self) -> None:
        while self._durations:
            try:
                histogram, seconds, labels = self._durations.popleft()
            except IndexError:  # another thread has taken the last one
                return
            histogram.record(seconds, labels)

    def _reader(self, name: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        def read(options: CallbackOptions) -> Iterator[Observation]:
            self._record_all()
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
