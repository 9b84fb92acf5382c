"""Observed JetStream: publishing, fetching and consuming as operations.

The methods pass their arguments on as they are; their signatures are those of the base classes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jetsync.client import Connection, Msg, MsgBatch, Subscription
from jetsync.jetstream import (
    ConsumeContext,
    Consumer,
    JetStream,
    JetStreamMsg,
    PubAck,
    PubAckFuture,
    PublishReport,
)
from jetsync.observe.hooks import Operation, Running, Watch, handled, size_of

__all__ = ["ObservedConsumer", "ObservedJetStream", "ObservedSubscription", "when_settled"]

_LINKED = 128
"""Messages of a batch whose headers the hooks may read."""


def when_settled(running: Running, future: Any) -> None:
    """End an operation by the outcome of its future."""
    running.end(future.exception())


class ObservedSubscription(Subscription):
    """A subscription whose ``next`` is an operation."""

    connection: Connection
    watch: Watch

    def next(self, timeout: Any = None) -> Msg:
        op = Operation("receive", "next", self.connection, subject=self.subject)
        op.consumer = self.queue
        with self.watch.running(op):
            msg = super().next(timeout)
            op.count, op.bytes, op.headers = 1, len(msg.data), _headers([msg])
        return msg


class ObservedJetStream(JetStream):
    """A JetStream with hooks."""

    connection: Connection
    watch: Watch

    def publish(self, subject: str, data: bytes = b"", **options: Any) -> PubAck:
        op = self._stored("publish", "publish", subject, data, options)
        with self.watch.running(op):
            options["headers"] = self.watch.headers(op, options.get("headers"))
            ack = super().publish(subject, data, **options)
            op.stream, op.seq = ack.stream, ack.seq
        return ack

    def publish_async(  # type: ignore[override]
        self, subject: str, data: bytes = b"", **options: Any
    ) -> PubAckFuture:
        op = self._stored("publish", "publish_async", subject, data, options)
        running = self.watch.running(op)
        running.begin()
        try:
            options["headers"] = self.watch.headers(op, options.get("headers"))
            future = super().publish_async(subject, data, **options)
        except BaseException as error:
            running.end(error)
            raise
        future.add_done_callback(functools.partial(when_settled, running))
        return future

    def publish_many(self, messages: Iterable[tuple[Any, ...]], **options: Any) -> PublishReport:
        op = Operation("publish_many", "publish_many", self.connection)
        with self.watch.running(op):
            added = self.watch.headers(op, None)
            if added:
                messages = self._marked(messages, op)
            report = super().publish_many(messages, **options)
            op.count, op.stream = report.stored, options.get("expected_stream")
        return report

    def _marked(self, messages: Iterable[tuple[Any, ...]], op: Operation) -> Iterator[Any]:
        shared = self.watch.headers(op, None)
        for row in messages:
            if len(row) == 2:
                yield (*row, shared)
            elif len(row) == 3:
                yield (*row[:2], self.watch.headers(op, row[2]))
            else:
                yield row

    def _stored(
        self, kind: str, name: str, subject: str, data: Any, options: dict[str, Any]
    ) -> Operation:
        op = Operation(kind, name, self.connection, subject=subject, size=size_of(data))
        msg_id = options.get("msg_id")
        op.msg_id = msg_id if isinstance(msg_id, str) else None
        return op

    # Handles of streams use these too.

    def create_consumer(self, *arguments: Any, **options: Any) -> Consumer:
        return self._observed(super().create_consumer(*arguments, **options))

    def update_consumer(self, *arguments: Any, **options: Any) -> Consumer:
        return self._observed(super().update_consumer(*arguments, **options))

    def create_or_update_consumer(self, *arguments: Any, **options: Any) -> Consumer:
        return self._observed(super().create_or_update_consumer(*arguments, **options))

    def consumer(self, *arguments: Any, **options: Any) -> Consumer:
        return self._observed(super().consumer(*arguments, **options))

    def _observed(self, consumer: Consumer) -> Consumer:
        consumer.__class__ = ObservedConsumer
        assert isinstance(consumer, ObservedConsumer)
        consumer.watch, consumer.connection = self.watch, self.connection
        return consumer


class ObservedConsumer(Consumer):
    """A consumer with hooks."""

    connection: Connection
    watch: Watch

    def fetch(self, *arguments: Any, **options: Any) -> MsgBatch:  # type: ignore[override]
        op = self._receiving("fetch")
        with self.watch.running(op):
            batch = super().fetch(*arguments, **options)
            op.count, op.headers = len(batch), _headers(batch)
        return batch

    def fetch_no_wait(self, *arguments: Any, **options: Any) -> MsgBatch:  # type: ignore[override]
        op = self._receiving("fetch_no_wait")
        with self.watch.running(op):
            batch = super().fetch_no_wait(*arguments, **options)
            op.count, op.headers = len(batch), _headers(batch)
        return batch

    def next(self, *arguments: Any, **options: Any) -> JetStreamMsg:
        op = self._receiving("next")
        with self.watch.running(op):
            msg = super().next(*arguments, **options)
            op.count, op.headers, op.subject = 1, _headers([msg]), msg.subject
        return msg

    def consume(self, callback: Any, **options: Any) -> ConsumeContext:
        return super().consume(handled(self.connection, self.watch, callback), **options)

    def _receiving(self, name: str) -> Operation:
        info = self.cached_info
        return Operation(
            "receive", name, self.connection, stream=info.stream_name, consumer=info.name
        )


def _headers(messages: Iterable[Any]) -> Iterator[bytes]:
    return (msg.raw_headers for msg in islice(messages, _LINKED))
