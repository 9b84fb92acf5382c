"""Measuring: the counts and the health of a worker as measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._measurement import Measurement, cumulated
from jetsync.worker.report import KINDS

if TYPE_CHECKING:
    from jetsync.worker.report import WorkerHealth, WorkerStats

__all__ = ["measured"]


def measured(
    stream: str, consumer: str, stats: WorkerStats, health: WorkerHealth
) -> list[Measurement]:
    """Return the numbers of a worker that takes from this consumer."""
    at = {"stream": stream, "consumer": consumer}
    found = [
        Measurement(
            "jetsync_worker_messages_total",
            "Outcomes of deliveries.",
            getattr(stats, kind),
            {**at, "outcome": kind},
        )
        for kind in KINDS
    ]
    found.append(
        Measurement(
            "jetsync_worker_handle_duration_seconds",
            "How long handlers ran.",
            stats.handle_seconds,
            at,
            stats.handled,
            cumulated(stats.buckets),
        )
    )
    found += [
        Measurement(f"jetsync_worker_{name}", text, value, at)
        for name, text, value in (
            ("in_flight", "Handlers that run.", health.in_flight),
            ("oldest_seconds", "How long the oldest of them has run.", health.oldest_seconds),
            ("ready", "Whether it takes and handles messages.", float(health.ready)),
        )
    ]
    return found
