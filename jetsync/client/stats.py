"""Counters of a connection."""

from __future__ import annotations

import dataclasses

__all__ = ["ConnectionStats"]


@dataclasses.dataclass(frozen=True)
class ConnectionStats:
    """A snapshot of the counters of a connection since it was made.

    Bytes count headers and payloads inwards, whole frames outwards. ``unmatched`` are messages
    without a receiver (late replies, ended subscriptions), ``dropped`` those that slow
    subscriptions lost.
    """

    in_messages: int
    in_bytes: int
    out_messages: int
    out_bytes: int
    reconnects: int
    dropped: int
    unmatched: int
