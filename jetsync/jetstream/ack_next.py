"""Acknowledging a message and asking for the next ones with the same request (``+NXT``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync.jetstream.pull.batch import BatchOptions, Mode
from jetsync.jetstream.pull.options import heartbeat_for

if TYPE_CHECKING:
    from jetsync.jetstream.consumers.shared import SharedConsumer
    from jetsync.jetstream.message import JetStreamMsg, MsgBatch

__all__ = ["ack_next"]


def ack_next(
    msg: JetStreamMsg,
    consumer: SharedConsumer,
    *,
    max_messages: int,
    max_bytes: int | None,
    timeout: float,
    no_wait: bool,
    group: dict[str, object],
) -> MsgBatch:
    """Acknowledge a message and fetch the next ones with the same request.

    The server answers such an acknowledgement with nothing but messages. Whether it arrived is
    therefore not known when the link breaks before the first one: then it is sent once more.
    """
    return consumer.fetch(
        BatchOptions(
            max_messages,
            max_bytes,
            timeout,
            None if no_wait else heartbeat_for(timeout, None, "the timeout"),
            Mode.NO_WAIT if no_wait else Mode.WAIT,
            group,
            None if msg._is_settled() else msg,
        )
    )
