"""Collector: the same numbers for a registry of ``prometheus_client``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jetsync._measurement import Measurement
from jetsync.errors import ConfigError
from jetsync.prometheus.text import Measured, families

__all__ = ["Collector"]


class Collector:
    """Gives the numbers of objects to a registry: ``registry.register(Collector(nc, consumer))``.

    Needs the extra ``prometheus``; ConfigError without it. Thread-safe.
    """

    def __init__(self, *objects: Measured) -> None:
        try:
            from prometheus_client import core
        except ImportError:
            raise ConfigError(
                'Collector needs prometheus_client: pip install "jetsync[prometheus]"'
            ) from None
        self._core: Any = core
        self._objects = objects

    def collect(self) -> Iterator[Any]:
        """Yield the present metric families. Blocks as ``render`` does."""
        for name, numbers in families(self._objects).items():
            first = numbers[0]
            kind = getattr(self._core, f"{first.kind.capitalize()}MetricFamily")
            family = kind(name, first.help, labels=list(first.labels))
            for number in numbers:
                family.add_metric(list(number.labels.values()), *_values(number))
            yield family


def _values(number: Measurement) -> tuple[Any, ...]:
    """Return what the family of its kind takes behind the labels."""
    if number.kind == "histogram":
        buckets = [(repr(bound), count) for bound, count in number.buckets]
        return [*buckets, ("+Inf", number.count)], number.value
    return (number.value,) if number.count is None else (number.count, number.value)
