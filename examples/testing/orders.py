"""What the tests beside this file are about: a handler of orders, and a queue of its own."""

from __future__ import annotations

import json

import jetsync
from jetsync.worker import Reject


def create(js: jetsync.JetStream) -> jetsync.Consumer:
    """Make the stream of orders and the consumer of those who charge them."""
    js.create_or_update_stream(name="ORDERS", subjects=["orders.>"])
    return js.create_or_update_consumer("ORDERS", durable_name="billing")


def charge(msg: jetsync.JetStreamMsg) -> float:
    """Charge one order; an order without a sum is rejected."""
    try:
        return float(json.loads(msg.data)["sum"])
    except (KeyError, ValueError) as error:
        raise Reject(f"not an order: {error}") from error


def place(js: jetsync.JetStream, number: int, total: float) -> jetsync.PubAck:
    """Place an order; the same number twice is one order."""
    data = json.dumps({"number": number, "sum": total}).encode()
    return js.publish(f"orders.{number}", data, msg_id=f"order-{number}")
