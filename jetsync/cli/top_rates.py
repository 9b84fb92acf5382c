"""Rows of ``jetsync top``: streams and consumers, with their rates since the look before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Row", "Sampler", "by_rate", "rows_in_order"]


@dataclass(frozen=True)
class Row:
    """A stream, or a consumer of it; rates are per second since the row before."""

    stream: str
    consumer: str | None
    rate: float
    messages: int
    bytes: int | None
    ack_pending: int | None
    waiting: int | None


class Sampler:
    """Looks at streams and consumers; rates are those since the look before. For one thread."""

    def __init__(
        self, js: Any, only: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._js = js
        self._only = only
        self._clock = clock
        self._before: dict[tuple[str, str | None], int] = {}
        self._now: dict[tuple[str, str | None], int] = {}
        self._at: float | None = None
        self._seconds = 0.0

    def look(self) -> list[list[Row]]:
        """Return a list of rows for each stream: its own, and those of its consumers, the one with
        the most to do first. Blocks; raises what the server's refusal or silence raises, and the
        next rates are those since the last look that worked."""
        now = self._clock()
        self._seconds = 0.0 if self._at is None else now - self._at
        self._now = {}
        looked = [self._rows(info) for info in self._streams()]
        self._before, self._at = self._now, now
        return looked

    def _streams(self) -> Iterable[Any]:
        if self._only is None:
            streams: Iterable[Any] = self._js.streams()
            return streams
        return [self._js.stream(self._only).cached_info]

    def _rows(self, info: Any) -> list[Row]:
        name, state = info.config.name, info.state
        stored = self._rate((name, None), state.last_seq)
        rows = [Row(name, None, stored, state.messages, state.bytes, None, None)]
        if state.consumer_count:
            consumers = [self._consumer(name, one) for one in self._js.consumers(name)]
            rows += sorted(consumers, key=lambda row: (-row.messages, row.consumer or ""))
        return rows

    def _consumer(self, stream: str, info: Any) -> Row:
        rate = self._rate((stream, info.name), info.delivered.consumer_seq)
        pending, unacked, pulls = info.num_pending, info.num_ack_pending, info.num_waiting
        return Row(stream, info.name, rate, pending, None, unacked, pulls)

    def _rate(self, key: tuple[str, str | None], count: int) -> float:
        self._now[key] = count
        before = self._before.get(key, count)
        return max(0.0, (count - before) / self._seconds) if self._seconds else 0.0


def by_rate(rows: Sequence[Row]) -> tuple[float, str]:
    """Return the place of a stream and its consumers: the busiest comes first."""
    return -max(row.rate for row in rows), rows[0].stream


def rows_in_order(
    looked: Iterable[Sequence[Row]], order: Callable[[Sequence[Row]], Any] = by_rate
) -> list[Row]:
    """Return the rows of all streams, each followed by those of its consumers."""
    return [row for group in sorted(looked, key=order) for row in group]
