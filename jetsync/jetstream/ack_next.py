"""Acknowledging a message and asking for the next ones with the same request (``+NXT``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync.jetstream.pull.engine import PullEngine, PullOptions
from jetsync.jetstream.pull.fetch import fetch

if TYPE_CHECKING:
    from jetsync.jetstream.consumers.consumer import Consumer
    from jetsync.jetstream.message import JetStreamMsg, MsgBatch

__all__ = ["ack_next"]


class _NextOptions(PullOptions):
    """The body of a pull as it is written behind ``+NXT``."""

    def body(self) -> bytes:
        return b"+NXT " + super().body()


def ack_next(
    msg: JetStreamMsg,
    consumer: Consumer,
    *,
    max_messages: int,
    max_bytes: int | None,
    timeout: float,
    no_wait: bool,
    group: dict[str, object],
) -> MsgBatch:
    """Acknowledge a message and fetch the next ones with the same request."""
    if msg._is_settled():
        with consumer._engine() as engine:
            return _fetch(consumer, engine, max_messages, max_bytes, timeout, no_wait, group)
    engine = _NextEngine(consumer, msg)
    try:
        return _fetch(consumer, engine, max_messages, max_bytes, timeout, no_wait, group)
    finally:
        engine.close()


def _fetch(
    consumer: Consumer,
    engine: PullEngine,
    max_messages: int,
    max_bytes: int | None,
    timeout: float,
    no_wait: bool,
    group: dict[str, object],
) -> MsgBatch:
    return fetch(
        consumer,
        engine,
        max_messages=max_messages,
        max_bytes=max_bytes,
        timeout=timeout,
        heartbeat=5.0 if timeout > 10 else None,
        no_wait=no_wait,
        eager=False,
        group=group,
    )


class _NextEngine(PullEngine):
    """An engine whose first pull goes out with the acknowledgement of a message (``+NXT``).

    The server answers such an acknowledgement with nothing but messages. Whether it arrived is
    therefore not known when the link breaks before the first one: then it is sent once more.
    """

    def __init__(self, consumer: Consumer, msg: JetStreamMsg) -> None:
        super().__init__(consumer)
        self._msg = msg
        self._pending_ack = True

    def pull(self, options: PullOptions) -> None:
        """Send one pull request; the first one to the acknowledgement subject of the message."""
        if not self._pending_ack:
            self._msg._answer(b"+ACK")
            super().pull(options)
            return
        self._pending_ack = False
        next_subject, self._subject = self._subject, self._msg.reply or ""
        try:
            super().pull(_NextOptions(**vars(options)))
        finally:
            self._subject = next_subject
        self._msg._sent_ack()
