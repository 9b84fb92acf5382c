"""Asking whether a consumer still exists, without waiting for the answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jetsync.errors import (
    ConsumerDeletedError,
    ConsumerNotFoundError,
    Error,
    JetStreamNotEnabledError,
    StreamNotFoundError,
)
from jetsync.jetstream.api import decode

if TYPE_CHECKING:
    from jetsync.client.port import Reply
    from jetsync.jetstream.pull.source import PulledConsumer

__all__ = ["Presence"]

_ASK_AGAIN = 1.0


class Presence:
    """Whether a consumer exists, asked for when no server answered a pull.

    While a consumer has no leader no server answers the question either, and the taker has to go on
    pulling meanwhile: so it is asked once, and the answer is looked for as often as needed.
    """

    def __init__(self, consumer: PulledConsumer) -> None:
        self._consumer = consumer
        self._port = consumer.port
        self.asked: Reply | None = None
        """The request that has no answer yet."""
        self._asked_at = 0.0
        self._has_told = False

    def why_gone(self, patience: float) -> ConsumerDeletedError | None:
        """Return why the consumer is gone, None while that is not known. Waits for the answer up to
        ``patience`` seconds."""
        msg = None if self.asked is None else self.asked.mailbox.get(0)
        if msg is None and time.monotonic() - self._asked_at > _ASK_AGAIN:
            self.close()
        if self.asked is None:
            consumer = self._consumer
            subject = f"CONSUMER.INFO.{consumer.stream_name}.{consumer.name}"
            try:
                self.asked = self._port.ask(consumer.api.subject(subject), seconds=patience)
            except Error:
                return None  # no link at this moment: there will be another 503
            self._asked_at = time.monotonic()
        msg = msg or self.asked.mailbox.get(patience)
        if msg is None:
            return None
        self.close()
        try:
            decode(msg.data)
        except (ConsumerNotFoundError, StreamNotFoundError) as error:
            return ConsumerDeletedError(f"{self._consumer!r} does not exist (any more): {error}")
        except JetStreamNotEnabledError as error:
            # JetStream is off, or not ready again after a restart: pulling goes on.
            if not self._has_told:
                self._has_told = True
                self._port.report(error)
            return None
        except Error:
            return None
        return None

    def seen(self) -> None:
        """A message or status of the consumer came: drop the question whether it exists."""
        self._has_told = False
        if self.asked is not None:
            self.close()

    def close(self) -> None:
        """Drop the request. Safe to repeat."""
        if self.asked is not None:
            self.asked.close()
            self.asked = None
