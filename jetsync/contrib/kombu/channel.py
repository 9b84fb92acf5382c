"""Channel: AMQP's commands on streams, consumers and a bucket; here those that consume."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from datetime import datetime
from queue import Empty
from typing import Any

from kombu.log import get_logger
from kombu.transport import virtual
from kombu.utils.json import loads

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
from jetsync.contrib.kombu.delay import expiration_of, is_too_old
from jetsync.contrib.kombu.intake import Intake
from jetsync.contrib.kombu.publishing import PublishingChannel
from jetsync.contrib.kombu.qos import QoS
from jetsync.contrib.kombu.queues import QueueRecord
from jetsync.contrib.kombu.readers import Reader, Received

__all__ = ["Channel", "QoS"]

logger = get_logger("jetsync.contrib")

_NAK_ON_ITS_WAY = 0.2
"""Seconds in which the server may still be dealing with what was handed back."""
_OUTAGE = (
    DisconnectedError,
    JetStreamUnavailableError,
    NoRespondersError,
    NotStoredError,
    TimeoutError,
)
_NOT_DECODED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclasses.dataclass
class _Subscription:
    queue: str
    no_ack: bool
    callback: Callable[[virtual.Message], Any]
    readers: list[Reader]


class Channel(PublishingChannel):
    """A channel: declares, publishes, consumes. What waits for the server blocks.

    ``basic_ack`` and ``basic_reject`` may be called by any thread, all else by one at a time.
    """

    QoS = QoS
    supports_fanout = True
    do_restore = False

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._subscriptions: dict[str, _Subscription] = {}
        self._intake = Intake()
        self._handed_back_at = 0.0

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

        self._keep(queue)

    def _keep(self, queue: str) -> None:
        """A queue that this channel declared and reads does not age out while it reads it."""
        declared = self._declared.get(queue)
        if declared is not None and any(s.queue == queue for s in self._subscriptions.values()):
            self._broker.renewals.keep(queue, declared)

    def _new_queue(self, queue: str, *arguments: Any, **options: Any) -> None:
        super()._new_queue(queue, *arguments, **options)
        self._keep(queue)

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
        queue = subscription.queue
        declared = self._declared.get(queue)
        if declared is not None and all(s.queue != queue for s in self._subscriptions.values()):
            self._broker.renewals.drop(declared)
        for reader in subscription.readers:
            call(reader.close)

    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> virtual.Message | None:
        """Return a message of a queue, None when there is none now. Blocks."""
        while True:
            try:
                received = self._get_received(queue)
            except Empty:
                return None
            with contextlib.suppress(Empty):
                return self._given(received, no_ack)

    def _get_received(self, queue: str) -> Received:
        _, consumers = call(self._broker.consumers, queue)
        is_early = time.monotonic() < self._handed_back_at + _NAK_ON_ITS_WAY
        for consumer in consumers:
            for msg in call(consumer.fetch_no_wait, 1):
                return Received(msg, queue)
        if is_early:
            for consumer in consumers:
                for msg in call(consumer.fetch, 1, timeout=_NAK_ON_ITS_WAY):
                    return Received(msg, queue)
        raise Empty

    def _given(self, received: Received, no_ack: bool) -> virtual.Message:
        """Make it one of kombu's, or settle it. Raises Empty for one that is of no use."""
        try:
            return self._message(received, no_ack)
        except Empty:
            raise
        except _NOT_DECODED as error:
            logger.error("a message of queue %r is no kombu message: %r", received.queue, error)
            received.term("not a kombu message")
            raise Empty from None
        except BaseException:
            with contextlib.suppress(Error):  # without a link it comes back after ack_wait
                received.nak()
            raise

    def _message(self, received: Received, no_ack: bool) -> virtual.Message:
        """Make a message of the store one of kombu's. Raises Empty for one that is too old."""
        raw, metadata = loads(received.msg.data), received.msg.metadata
        properties = raw["properties"]
        record: QueueRecord = self._broker.record(received.queue)
        limits = [expiration_of(raw), record.message_ttl]
        if limits != [None, None] and is_too_old(_stored(received), limits):
            received.term("expired")
            raise Empty
        if metadata.num_delivered > 1:
            properties.setdefault("delivery_info", {})["redelivered"] = True
            raw["headers"] = {
                **(raw.get("headers") or {}),
                "x-delivery-count": metadata.num_delivered - 1,
            }
        message = self.Message(raw, channel=self)
        if no_ack:
            received.ack()
        else:
            self.qos.unsettled[message.delivery_tag] = received, message
        return message

    def deliver(self) -> bool:
        """Ask for more, and give one message that has come to its callback. Returns whether it did.

        Blocks for round trips when it reads several queues or priorities, and for the callback.
        """
        for broken in call(self._intake.fill, self.qos.prefetch_count, len(self.qos.unsettled)):
            try:
                self._repair(broken)
            except _OUTAGE as error:  # the next call tries again
                logger.warning("queue %r is not read again yet: %s", broken.queue, error)
        while (found := self._intake.take()) is not None:
            reader, received = found
            subscription = next(s for s in self._subscriptions.values() if reader in s.readers)
            try:
                message = self._given(received, subscription.no_ack)
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


def _stored(received: Received) -> datetime:
    return received.msg.metadata.timestamp
