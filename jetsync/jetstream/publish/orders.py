"""Headers by which a publisher gives orders to the stream that stores the message."""

from __future__ import annotations

__all__ = ["is_order"]

_ORDERS = ("nats-msg-id", "nats-ttl", "nats-rollup", "nats-incr")
_ORDERS_BEGIN = ("nats-expected-", "nats-schedule", "nats-batch-")


def is_order(name: str) -> bool:
    """Return whether a header of this name is an order for a stream, which a copy of the message
    in another stream must not repeat."""
    low = name.lower()
    return low in _ORDERS or low.startswith(_ORDERS_BEGIN)
