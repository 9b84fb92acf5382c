"""Channel: AMQP's commands on streams, consumers and a bucket."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable
from datetime import datetime
from queue import Empty
from typing import TYPE_CHECKING, Any

from amqp.protocol import (  # type: ignore[import-untyped, unused-ignore]
    queue_declare_ok_t,
)
from kombu.log import get_logger
from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.utils.json import dumps, loads
from kombu.utils.uuid import uuid

from jetsync import (
    BucketNotFoundError,
    DisconnectedError,
    Error,
    JetStreamUnavailableError,
    NoRespondersError,
    NotStoredError,
    StreamNotFoundError,
    TimeoutError,
)
from jetsync.contrib.gevent import call
from jetsync.contrib.kombu.delay import due_time, expiration_of, is_too_old, without_eta
from jetsync.contrib.kombu.intake import Intake
from jetsync.contrib.kombu.qos import QoS
from jetsync.contrib.kombu.queues import QueueRecord
from jetsync.contrib.kombu.readers import Held, Reader

if TYPE_CHECKING:
    from jetsync.contrib.kombu.broker import Broker

__all__ = ["Channel", "QoS"]

logger = get_logger("jetsync.contrib")

_NAK_ON_ITS_WAY = 0.2
"""Seconds in which the server may still be dealing with what was handed back."""
_RENEW_AGAIN = 1.0
"""Seconds after a renewal that failed until the next one."""
_OUTAGE = (
    DisconnectedError,
    JetStreamUnavailableError,
    NoRespondersError,
    NotStoredError,
    TimeoutError,
)
_PUBLISH_ID = "x-publish-id"
"""Property of a message until it is stored."""
_NOT_DECODED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclasses.dataclass
class _Subscription:
    queue: str
    no_ack: bool
    callback: Callable[[virtual.Message], Any]
    readers: list[Reader]


@dataclasses.dataclass
class _Declared:
    """A queue as this channel has declared and bound it."""

    record: QueueRecord
    bound: list[tuple[str, str, str]]
    renew_at: float
    failed: bool = False


class Channel(virtual.Channel):
    """A channel: declares, publishes, consumes. What waits for the server blocks.

    ``basic_ack`` and ``basic_reject`` may be called by any thread, all else by one at a time.
    """

    QoS = QoS
    supports_fanout = True
    do_restore = False

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._broker: Broker = connection.broker
        self._subscriptions: dict[str, _Subscription] = {}
        self._intake = Intake()
        self._exclusive: set[str] = set()
        self._declared: dict[str, _Declared] = {}
        self._tables: dict[str, tuple[int, list[Any]]] = {}
        self._handed_back_at = 0.0

    # -- declaring ---------------------------------------------------------------------------------

    def prepare_queue_arguments(self, arguments: Any, **options: Any) -> Any:
        """Times and priorities of a kombu Queue, as AMQP's arguments."""
        return to_rabbitmq_queue_arguments(arguments, **options)

    def _new_queue(
        self,
        queue: str,
        auto_delete: bool = False,
        exclusive: bool = False,
        arguments: Any = None,
        **_: Any,
    ) -> None:
        record = call(
            self._broker.declare,
            queue,
            auto_delete=auto_delete,
            exclusive=exclusive,
            arguments=arguments,
        )
        if exclusive:
            self._exclusive.add(queue)
        known = self._declared.get(queue)
        self._declared[queue] = _Declared(record, known.bound if known else [], _renew_at(record))

    def queue_declare(self, queue: str | None = None, passive: bool = False, **options: Any) -> Any:
        """Declare a queue. With ``passive`` only ask how many messages it has; a queue that is not
        there is a ChannelError then. Blocks."""
        if passive and queue and self._has_queue(queue):
            return queue_declare_ok_t(queue, self._size(queue), 0)
        return super().queue_declare(queue, passive, **options)

    def _has_queue(self, queue: str, **_: Any) -> bool:
        routes = self._broker.routes
        if routes.queue(queue) is None:
            call(routes.catch_up)
        return routes.queue(queue) is not None

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **_: Any,
    ) -> None:
        """Bind a queue to an exchange. Blocks."""
        exchange = exchange or "amq.direct"
        routing_key = routing_key or ""
        type = self.typeof(exchange).type
        call(self._broker.bind, exchange, type, queue, routing_key)
        declared = self._declared.get(queue)
        if declared is not None and (exchange, type, routing_key) not in declared.bound:
            declared.bound.append((exchange, type, routing_key))

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **_: Any,
    ) -> None:
        """Take a binding away. Blocks."""
        exchange = exchange or "amq.direct"
        call(self._broker.routes.unbind, exchange, queue, routing_key or "")
        declared = self._declared.get(queue)
        if declared is not None:
            gone = (exchange, routing_key or "")
            declared.bound = [bound for bound in declared.bound if bound[::2] != gone]

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any
    ) -> None:
        """Delete a queue with its messages. Blocks."""
        if if_empty and self._size(queue):
            return
        self._forget(queue)
        call(self._broker.delete, queue)

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        """Delete an exchange: its bindings. Blocks."""
        for queue, routing_key in self._broker.routes.bindings(exchange):
            call(self._broker.routes.unbind, exchange, queue, routing_key)
        self.state.exchanges.pop(exchange, None)

    def _forget(self, queue: str) -> None:
        self._declared.pop(queue, None)
        self._exclusive.discard(queue)

    def _size(self, queue: str) -> int:
        return call(self._broker.size, queue)

    def _purge(self, queue: str) -> int:
        return call(self._broker.purge, queue)

    # -- routing -----------------------------------------------------------------------------------

    def typeof(self, exchange: str, default: str = "direct") -> Any:
        """The type of an exchange, as it was declared here or bound elsewhere."""
        known = self.state.exchanges.get(exchange)
        type = known["type"] if known else self._broker.routes.exchange_type(exchange)
        return self.exchange_types[type or default]

    def get_exchanges(self) -> list[str]:
        """The exchanges that are declared here or bound elsewhere."""
        return sorted({*self.state.exchanges, *self._broker.routes.exchanges()})

    def list_bindings(self) -> Any:
        """Queue, exchange and routing key of each binding."""
        routes = self._broker.routes
        return (
            (queue, exchange, routing_key)
            for exchange in routes.exchanges()
            for queue, routing_key in routes.bindings(exchange)
        )

    def get_table(self, exchange: str) -> list[Any]:
        """The bindings of an exchange, as kombu's exchange types read them."""
        routes = self._broker.routes
        bindings = routes.bindings(exchange)
        known = self._tables.get(exchange)
        if known is not None and known[0] == routes.version:
            return known[1]
        type = self.typeof(exchange)
        table = [type.prepare_bind(queue, exchange, key, None) for queue, key in bindings]
        self._tables[exchange] = routes.version, table
        return table

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

    # -- publishing --------------------------------------------------------------------------------

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
            expiration=expiration_of(properties),
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

    # -- consuming ---------------------------------------------------------------------------------

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Callable[[virtual.Message], Any],
        consumer_tag: str,
        **_: Any,
    ) -> None:
        """Give the messages of a queue to ``callback``, in ``drain_events``. Blocks."""
        self._subscriptions[consumer_tag] = _Subscription(
            queue, bool(no_ack), callback, self._open(queue)
        )
        self._consumers.add(consumer_tag)
        self._tag_to_queue[consumer_tag] = queue
        self._intake.use([r for s in self._subscriptions.values() for r in s.readers])

    def _open(self, queue: str, *, anew: bool = False) -> list[Reader]:
        record, consumers = call(self._broker.consumers, queue, anew=anew)
        levels = range(record.levels - 1, -1, -1)
        return [
            Reader(queue, level, consumer, self.wake)
            for level, consumer in zip(levels, consumers, strict=True)
        ]

    def basic_cancel(self, consumer_tag: str) -> None:
        """Give no more messages; those that have come and were not given are handed back."""
        subscription = self._subscriptions.pop(consumer_tag, None)
        if subscription is None:
            return
        self._consumers.discard(consumer_tag)
        self._tag_to_queue.pop(consumer_tag, None)
        self._intake.use([r for s in self._subscriptions.values() for r in s.readers])
        for reader in subscription.readers:
            call(reader.close)

    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> virtual.Message | None:
        """Return a message of a queue, None when there is none now. Blocks."""
        while True:
            try:
                held = self._get_held(queue)
            except Empty:
                return None
            with contextlib.suppress(Empty):
                return self._given(held, no_ack)

    def _get_held(self, queue: str) -> Held:
        _, consumers = call(self._broker.consumers, queue)
        is_early = time.monotonic() < self._handed_back_at + _NAK_ON_ITS_WAY
        for consumer in consumers:
            for msg in call(consumer.fetch_no_wait, 1):
                return Held(msg, queue)
        if is_early:
            for consumer in consumers:
                for msg in call(consumer.fetch, 1, timeout=_NAK_ON_ITS_WAY):
                    return Held(msg, queue)
        raise Empty

    def _given(self, held: Held, no_ack: bool) -> virtual.Message:
        """Make it one of kombu's, or settle it. Raises Empty for one that is of no use."""
        try:
            return self._message(held, no_ack)
        except Empty:
            raise
        except _NOT_DECODED as error:
            logger.error("a message of queue %r is no kombu message: %r", held.queue, error)
            held.term("not a kombu message")
            raise Empty from None
        except BaseException:
            with contextlib.suppress(Error):  # without a link it comes back after ack_wait
                held.nak()
            raise

    def _message(self, held: Held, no_ack: bool) -> virtual.Message:
        """Make a message of the store one of kombu's. Raises Empty for one that is too old."""
        raw, metadata = loads(held.msg.data), held.msg.metadata
        properties = raw["properties"]
        record: QueueRecord = self._broker.record(held.queue)
        limits = [expiration_of(properties), record.message_ttl]
        if limits != [None, None] and is_too_old(_stored(held), limits):
            held.term("expired")
            raise Empty
        if metadata.num_delivered > 1:
            properties.setdefault("delivery_info", {})["redelivered"] = True
            raw["headers"] = {
                **(raw.get("headers") or {}),
                "x-delivery-count": metadata.num_delivered - 1,
            }
        message = self.Message(raw, channel=self)
        if no_ack:
            held.ack()
        else:
            self.qos.held[message.delivery_tag] = held, message
        return message

    def deliver(self) -> bool:
        """Ask for more, and give one message that has come to its callback. Returns whether it did.

        Blocks for round trips when it reads several queues or priorities, and for the callback.
        """
        self._renew()
        for broken in call(self._intake.fill, self.qos.prefetch_count, len(self.qos.held)):
            try:
                self._repair(broken)
            except _OUTAGE as error:  # the next call tries again
                logger.warning("queue %r is not read again yet: %s", broken.queue, error)
        while (found := self._intake.take()) is not None:
            reader, held = found
            subscription = next(s for s in self._subscriptions.values() if reader in s.readers)
            try:
                message = self._given(held, subscription.no_ack)
            except Empty:
                continue
            subscription.callback(message)
            return True
        return False

    def _repair(self, reader: Reader) -> None:
        """A consumer has gone, with its queue or after an outage: make it again, read again."""
        for subscription in self._subscriptions.values():
            if reader in subscription.readers:
                for old in subscription.readers:
                    call(old.close)
                subscription.readers = self._open_again(reader.queue)
        self._intake.use([r for s in self._subscriptions.values() for r in s.readers])

    def _open_again(self, queue: str) -> list[Reader]:
        try:
            self._declare_again(queue)
            return self._open(queue, anew=True)
        except (StreamNotFoundError, BucketNotFoundError):  # a server has lost what was in memory
            call(self._broker.prepare)
            self._declare_again(queue)
            return self._open(queue, anew=True)

    def _declare_again(self, queue: str) -> None:
        """Write the record and the bindings again if the queue has been forgotten meanwhile."""
        declared = self._declared.get(queue)
        if declared is not None and self._broker.routes.queue(queue) is None:
            call(self._broker.renew, queue, declared.record, declared.bound)

    def _renew(self) -> None:
        """Queues that this channel declared and reads do not age out while it reads them.

        Without a link, or when it fails, the next call tries again: an outage ends nothing.
        """
        for queue in {s.queue for s in self._subscriptions.values()} & set(self._declared):
            declared = self._declared[queue]
            if time.monotonic() < declared.renew_at or not self._broker.nc.is_connected:
                continue
            try:
                if declared.failed:
                    call(self._broker.prepare)  # what was in memory may be lost
                call(self._broker.renew, queue, declared.record, declared.bound)
            except Error as error:
                logger.warning("queue %r is not renewed yet: %s", queue, error)
                declared.failed, declared.renew_at = True, time.monotonic() + _RENEW_AGAIN
            else:
                declared.failed, declared.renew_at = False, _renew_at(declared.record)

    def wake(self) -> None:
        """There is something to do for ``drain_events``. Any thread; does not block."""
        connection = self.connection
        if connection is not None:
            connection.wake()

    def handed_back(self) -> None:
        """A message was handed back just now."""
        self._handed_back_at = time.monotonic()

    # -- ending ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Hand back what is not settled and delete the exclusive queues. Blocks."""
        if self.closed:
            return
        for consumer_tag in list(self._subscriptions):
            self.basic_cancel(consumer_tag)
        if not self._broker.nc.is_closed:
            for queue in list(self._exclusive):
                try:
                    call(self._broker.delete, queue)
                except Error:
                    continue  # it ages out
        super().close()


def _renew_at(record: QueueRecord) -> float:
    return math.inf if record.expires is None else time.monotonic() + record.expires / 3


def _stored(held: Held) -> datetime:
    return held.msg.metadata.timestamp
