"""Counting: how the publishes of a connection ended, and how long they took."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from jetsync._locks import rlock
from jetsync._measurement import BOUNDS, Measurement, cumulated
from jetsync.errors import NotStoredError

if TYPE_CHECKING:
    from jetsync._core.in_flight import InFlight
    from jetsync.jetstream.publish.puback import PubAck

__all__ = ["PublishCounts"]

_RESULTS = ("stored", "duplicate", "not_stored", "unknown")


class PublishCounts:
    """The outcomes of the messages that one connection publishes to streams. Thread-safe.

    The windows of many messages count confirmations themselves, in compiled code, and are asked
    when the numbers are read; failures and single messages are counted here.
    """

    def __init__(self) -> None:
        # Reentrant: a signal handler may publish in the middle of a count.
        self._lock = rlock("jetstream/publish/counting.py _lock")
        self._results = dict.fromkeys(_RESULTS, 0)
        self._windows: list[InFlight] = []
        self._seconds = 0.0
        self._buckets = [0] * (len(BOUNDS) + 1)

    def confirmed(self, ack: PubAck, seconds: float) -> None:
        """Count a single message that a stream has confirmed."""
        with self._lock:
            self._results["duplicate" if ack.duplicate else "stored"] += 1
            self._seconds += seconds
            self._buckets[bisect.bisect_left(BOUNDS, seconds)] += 1

    def stored(self, messages: int) -> None:
        """Count the messages of an atomic batch that a stream has confirmed: none is a duplicate,
        which a stream refuses with the whole batch."""
        with self._lock:
            self._results["stored"] += messages

    def failed(self, error: BaseException, messages: int = 1) -> None:
        """Count messages that no stream has confirmed."""
        with self._lock:
            result = "not_stored" if isinstance(error, NotStoredError) else "unknown"
            self._results[result] += messages

    def follow(self, window: InFlight) -> None:
        """Read the confirmations of a window too, until it is left."""
        with self._lock:
            self._windows.append(window)

    def leave(self, window: InFlight) -> None:
        """Keep what a window has counted; it gets no more confirmations."""
        with self._lock:
            if window in self._windows:
                self._windows.remove(window)
                self._take(window, self._results)

    def measurements(self, connection: str) -> list[Measurement]:
        """Return the numbers. Does not block."""
        with self._lock:
            results = dict(self._results)
            for window in self._windows:
                self._take(window, results)
            seconds, buckets = self._seconds, list(self._buckets)
        at = {"connection": connection}
        text = "Messages published to streams, by their outcome."
        name = "jetsync_publish_results_total"
        found = [
            Measurement(name, text, count, {**at, "result": result})
            for result, count in results.items()
        ]
        text = "From the call of publish() to the confirmation."
        name = "jetsync_publish_duration_seconds"
        return [*found, Measurement(name, text, seconds, at, sum(buckets), cumulated(buckets))]

    @staticmethod
    def _take(window: InFlight, results: dict[str, int]) -> None:
        results["stored"] += window.stored - window.duplicates
        results["duplicate"] += window.duplicates
