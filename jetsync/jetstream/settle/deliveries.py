"""Deliveries without limit: a client that counts them itself lets the server drop no message."""

from __future__ import annotations

import dataclasses

from jetsync.jetstream.consumers.consumer import Consumer, shared_of
from jetsync.jetstream.consumers.requests import put_consumer

__all__ = ["lift_max_deliver"]


def lift_max_deliver(consumer: Consumer) -> None:
    """Have a consumer deliver each message until it is settled: ``max_deliver`` becomes -1.

    The server drops a message whose delivery number ``max_deliver`` was not settled, whatever has
    ended the client that had it. Blocks; raises what an update of the consumer raises.
    """
    shared = shared_of(consumer)
    config = shared.info(None).config
    if config is not None and config.max_deliver > 0:
        unlimited = dataclasses.replace(config, max_deliver=-1)
        put_consumer(shared.api, shared.stream_name, unlimited, "update", None)
        shared.info(None)
