"""Reading from and sending to queues of a kombu connection."""

from __future__ import annotations

import time
from typing import Any

import kombu
import pytest


class Reading:
    """Reads queues of a connection; keeps what came and settles it as ``settle`` says."""

    def __init__(
        self,
        connection: kombu.Connection,
        *queues: kombu.Queue,
        prefetch: int | None = None,
        settle: str | None = "ack",
    ) -> None:
        self.connection = connection
        self.messages: list[kombu.Message] = []
        self.settle = settle
        self.consumer = kombu.Consumer(
            connection.channel(), list(queues), callbacks=[self._take], prefetch_count=prefetch
        )
        self.consumer.consume()

    def _take(self, body: Any, message: kombu.Message) -> None:
        self.messages.append(message)
        if self.settle == "ack":
            message.ack()

    @property
    def bodies(self) -> list[Any]:
        return [message.payload for message in self.messages]

    def until(self, count: int, timeout: float = 10.0) -> list[Any]:
        """Drain events until so many messages have come; return their bodies."""
        ends_at = time.monotonic() + timeout
        while len(self.messages) < count and time.monotonic() < ends_at:
            try:
                self.connection.drain_events(timeout=0.5)
            except TimeoutError:
                continue
        assert len(self.messages) == count
        return self.bodies

    def until_there_is(self, body: Any, timeout: float = 10.0) -> None:
        """Drain events until this has come; what was not acknowledged in time may come again."""
        ends_at = time.monotonic() + timeout
        while body not in self.bodies and time.monotonic() < ends_at:
            try:
                self.connection.drain_events(timeout=0.5)
            except TimeoutError:
                continue
        assert body in self.bodies

    def nothing_comes(self) -> None:
        """Drain events for a moment in which nothing comes."""
        before = len(self.messages)
        with pytest.raises(TimeoutError):
            self.connection.drain_events(timeout=0.3)
        assert len(self.messages) == before


def send(connection: kombu.Connection, body: Any, queue: kombu.Queue | str, **options: Any) -> None:
    """Publish to a queue by its name, declared first when it is a Queue."""
    name = queue if isinstance(queue, str) else queue.name
    declare = [] if isinstance(queue, str) else [queue]
    kombu.Producer(connection.channel()).publish(
        body, exchange="", routing_key=name, declare=declare, **options
    )
