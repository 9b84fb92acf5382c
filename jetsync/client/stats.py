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
    """Messages that came."""
    in_bytes: int
    """Their headers and payloads."""
    out_messages: int
    """Messages that were published."""
    out_bytes: int
    """Their whole frames: commands, subjects, headers and payloads."""
    reconnects: int
    """How often a link was replaced."""
    dropped: int
    """Messages that slow subscriptions lost."""
    unmatched: int
    """Messages without a receiver."""
