"""Publishing: a message is stored once for each queue that it is for."""

from __future__ import annotations

from typing import Any

from kombu.transport import virtual
from kombu.utils.json import dumps
from kombu.utils.uuid import uuid

from jetsync.contrib.gevent import call
from jetsync.contrib.kombu.declaring import DeclaringChannel
from jetsync.contrib.kombu.delay import due_time, lifetime_of, without_eta

__all__ = ["PublishingChannel"]

_PUBLISH_ID = "x-publish-id"
"""Property of a message until it is stored."""


class PublishingChannel(DeclaringChannel):
    """The part of a channel that finds the queues of a message and stores it. Its methods block."""

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> Any:
        if not exchange:
            return [routing_key or default or self.deadletter_queue]
        found = self._bound_queues(exchange, routing_key)
        is_direct = self.typeof(exchange).type == "direct"
        if not found and call(self._broker.routes.catch_up, seldom=not is_direct):
            found = self._bound_queues(exchange, routing_key)
        return found or super()._lookup(exchange, routing_key, default)

    def _bound_queues(self, exchange: str, routing_key: str) -> list[str]:
        type = self.typeof(exchange)
        return sorted(type.lookup(self.get_table(exchange), exchange, routing_key, None))

    def basic_publish(
        self, message: dict[str, Any], exchange: str, routing_key: str, **options: Any
    ) -> Any:
        """Store a message for each queue that it is for; returns when the server has it. Blocks.

        When that fails, kombu's ``ensure`` publishes with the same properties: the id in them lets
        the server know what it has stored already.
        """
        properties = message["properties"]
        properties.setdefault(_PUBLISH_ID, uuid())
        result = super().basic_publish(message, exchange, routing_key, **options)
        properties.pop(_PUBLISH_ID, None)
        return result

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        """Store one copy; returns when the server has it. Blocks."""
        properties = dict(message["properties"])
        id = f"{properties.pop(_PUBLISH_ID, None) or uuid()}:{queue}"
        properties["delivery_tag"] = uuid()
        is_kept = self._broker.delays and not self._broker.record(queue).transient
        due = due_time(message) if is_kept else None
        message = {**message, "properties": properties}
        if due is not None:
            message["headers"] = without_eta(message["headers"])
        call(
            self._broker.put,
            queue,
            dumps(message).encode(),
            id=id,
            priority=self._get_message_priority(message),
            expiration=lifetime_of(message),
            due=due,
        )

    def _put_fanout(
        self, exchange: str, message: dict[str, Any], routing_key: str, **_: Any
    ) -> None:
        for queue in self._lookup(exchange, routing_key):
            if queue:
                self._put(queue, message)

    def bury(self, queue: str, message: virtual.Message) -> None:
        """Put a rejected message where its queue's dead letters go, if it says so. Blocks."""
        record = self._broker.record(queue)
        exchange = record.dead_letter_exchange
        if exchange is None:
            return
        routing_key = record.dead_letter_routing_key
        if routing_key is None:
            routing_key = message.delivery_info.get("routing_key") or queue
        copy = message.serializable()
        copy["headers"].pop("eta", None)
        copy["properties"].pop("expiration", None)
        for target in self._lookup(exchange, routing_key):
            if target:
                self._put(target, copy)
