"""Measuring: how far a consumer is behind, as measurements, requested once in a few seconds."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from jetsync._measurement import Measurement
from jetsync.errors import APIError, DisconnectedError, JetStreamError, TimeoutError

if TYPE_CHECKING:
    from jetsync.jetstream.config.consumer_info import ConsumerInfo
    from jetsync.jetstream.consumers.shared import SharedConsumer

__all__ = ["LagMeter"]

_SECONDS = 5.0
_TIMEOUT = 2.0
_NUMBERS = (
    ("pending", "Messages that were not delivered yet.", "num_pending"),
    ("ack_pending", "Messages delivered and not acknowledged.", "num_ack_pending"),
    ("redelivered", "Messages delivered more than once and not acknowledged.", "num_redelivered"),
    ("waiting", "Pulls that wait for messages.", "num_waiting"),
)


class LagMeter:
    """Keeps the last answer for some seconds. Thread-safe: two threads may both ask at worst."""

    def __init__(self, shared: SharedConsumer) -> None:
        self._shared = shared
        self._last: tuple[float, list[Measurement]] = (-math.inf, [])

    def read(self) -> list[Measurement]:
        """Return the numbers; none when no answer came. Raises ConnectionClosedError."""
        at, found = self._last
        if time.monotonic() - at >= _SECONDS:
            found = self._ask()
            self._last = (time.monotonic(), found)
        return found

    def _ask(self) -> list[Measurement]:
        shared = self._shared
        try:
            info: ConsumerInfo = shared.info(min(_TIMEOUT, shared.api.timeout))
        except (APIError, JetStreamError, TimeoutError, DisconnectedError):
            return []
        labels = {"stream": shared.stream_name, "consumer": shared.name}
        return [
            Measurement(f"jetsync_consumer_{name}", text, getattr(info, field), labels)
            for name, text, field in _NUMBERS
        ]
