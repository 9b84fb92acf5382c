"""Collector: the same numbers for a registry of ``prometheus_client``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
            core = self._core
            kind = core.CounterMetricFamily if first.is_counter else core.GaugeMetricFamily
            family = kind(name, first.help, labels=list(first.labels))
            for number in numbers:
                family.add_metric(list(number.labels.values()), number.value)
            yield family
