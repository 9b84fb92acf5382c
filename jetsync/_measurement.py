"""Measurement: one number that a connection, consumer or worker gives to a collector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from jetsync._dataclass import dataclass

__all__ = ["Measurement"]


@dataclass(frozen=True)
class Measurement:
    """A number with its name. Names are those of Prometheus: ``jetsync_``, base units, counters
    end in ``_total``. Labels name connections, streams and consumers, never subjects or keys, of
    which there may be millions."""

    name: str
    help: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_counter(self) -> bool:
        """Whether the number only grows; others go up and down."""
        return self.name.endswith("_total")
