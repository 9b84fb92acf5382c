"""Observed JetStream: publishing, fetching and consuming as operations.

The methods pass their arguments on as they are; their signatures are those of the base classes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds
from jetsync.client import Connection, Noted, Running, call_noted
from jetsync.jetstream import (
    Consumer,
    JetStream,
    OrderedConsumer,
    PubAck,
    PubAckFuture,
    PublishBatch,
    PublishReport,
    PullSubscription,
    PushSubscription,
)
from jetsync.jetstream.publish.batch import ended_by
from jetsync.jetstream.push.ordered import OrderedPushSubscription
from jetsync.observe.consuming import (
    ObservedConsumer,
    ObservedOrderedConsumer,
    ObservedOrderedPush,
    ObservedPullSubscription,
    ObservedPushSubscription,
    observed,
    observed_first,
)
from jetsync.observe.hooks import (
    Carry,
    End,
    LeftOut,
    Operation,
    Watch,
    handled,
    size_of,
    until_settled,
)

if TYPE_CHECKING:
    from jetsync.headers import HeaderInput
    from jetsync.jetstream.publish.headers import Auto, PublishOptions

__all__ = ["ObservedBatch", "ObservedJetStream"]


class ObservedBatch(PublishBatch):
    """An atomic batch as one operation: from its first message to the confirmation."""

    connection: Connection
    watch: Watch
    begun: Running | None = None

    def add(self, subject: str, data: bytes = b"", **options: Any) -> None:
        if ended_by(self) is None:  # else it is refused
            options["headers"] = self.watch.headers(self._begin().op, options.get("headers"))
        try:
            super().add(subject, data, **options)
        except BaseException as error:
            if ended_by(self) is None and not len(self):  # it would have been the first one
                self._end(error)
            raise

    def add_arrow(self, batch: Any, **options: Any) -> None:
        super().add_arrow(batch, **options)
        self._begin()

    def discard(self) -> None:
        super().discard()
        if ended_by(self) == "discarded" and self.begun is not None:
            self.begun.op.count = 0
            self._end(None)

    def _store(self, messages: list[Any], deadline: Deadline, seconds: float) -> PubAck:
        op = self._begin().op
        op.count = sum(message.count for message in messages)
        try:
            ack = super()._store(messages, deadline, seconds)
        except BaseException as error:
            self._end(error)
            raise
        op.stream = ack.stream
        self._end(None)
        return ack

    def _begin(self) -> Running:
        if self.begun is None:
            op = Operation("publish_many", "batch", self.connection)
            self.begun = Running(self.watch, op)
            self.begun.begin()
        return self.begun

    def _end(self, error: BaseException | None) -> None:
        running, self.begun = self.begun, None
        if running is not None:
            running.end(error)

    def __del__(self) -> None:
        # Dropped without commit() or discard(). This thread may hold any lock at this moment.
        running, self.begun = self.begun, None
        if running is None:
            return
        running.op.count = 0
        if self._port.closed:
            running.end(None)
        else:
            self._port.later(0, functools.partial(running.end, None))


_publish = JetStream._publish


class ObservedJetStream(JetStream):
    """A JetStream with hooks."""

    connection: Connection
    watch: Watch

    def _publish(
        self,
        subject: str,
        data: bytes,
        headers: HeaderInput | None,
        timeout: Seconds | None,
        msg_id: str | Auto | None,
        options: PublishOptions,
    ) -> PubAck:
        plan = self.watch.plan("publish")
        if isinstance(plan, LeftOut):
            headers, notes = plan.carry(headers), plan.notes
            if notes is None:
                return _publish(self, subject, data, headers, timeout, msg_id, options)
            about = ("publish", "publish", self._port.url, subject, None, None)
            arguments = (self, subject, data, headers, timeout, msg_id, options)
            return call_noted(self.watch, notes, about, 1, _publish, arguments)
        op = self._stored("publish", "publish", subject, data, msg_id)
        op.state = plan
        with Running(self.watch, op):
            headers = self.watch.headers(op, headers)
            ack = _publish(self, subject, data, headers, timeout, msg_id, options)
            op.stream, op.seq = ack.stream, ack.seq
        return ack

    def publish_async(  # type: ignore[override]
        self, subject: str, data: bytes = b"", **options: Any
    ) -> PubAckFuture:
        plan, publish = self.watch.plan("publish"), super().publish_async
        given = options.pop("headers", None)
        end: End
        carry: Carry
        if isinstance(plan, LeftOut):
            carry = plan.carry
            if plan.notes is None:
                return publish(subject, data, headers=carry(given), **options)
            about = ("publish", "publish_async", self._port.url, subject, None, None)
            end = Noted(self.watch, plan.notes, about, 1).end
        else:
            op = self._stored("publish", "publish_async", subject, data, options.get("msg_id"))
            op.state = plan
            end, carry = self.watch.begun(op)
        made: PubAckFuture = until_settled(
            end, lambda: publish(subject, data, headers=carry(given), **options)
        )
        return made

    def publish_many(self, messages: Iterable[tuple[Any, ...]], **options: Any) -> PublishReport:
        op = Operation("publish_many", "publish_many", self.connection)
        with Running(self.watch, op):
            if self.watch.each_message:
                messages = self._created(messages, op)
            elif self.watch.headers(op, None):
                messages = self._marked(messages, op)
            report = super().publish_many(messages, **options)
            op.count, op.stream = report.stored, options.get("expected_stream")
        return report

    def publish_arrow(self, batch: Any, **options: Any) -> PublishReport:
        op = Operation("publish_many", "publish_arrow", self.connection)
        with Running(self.watch, op):
            report = super().publish_arrow(batch, **options)
            op.count, op.stream = report.stored, options.get("expected_stream")
        return report

    def batch(self, **options: Any) -> PublishBatch:
        batch: ObservedBatch = self._as(ObservedBatch, super().batch(**options))
        return batch

    def _marked(self, messages: Iterable[tuple[Any, ...]], op: Operation) -> Iterator[Any]:
        shared = self.watch.headers(op, None)
        for row in messages:
            if len(row) == 2:
                yield (*row, shared)
            elif len(row) == 3:
                yield (*row[:2], self.watch.headers(op, row[2]))
            else:
                yield row

    def _created(self, messages: Iterable[tuple[Any, ...]], batch: Operation) -> Iterator[Any]:
        for row in messages:
            if not (2 <= len(row) <= 3 and isinstance(row[0], str)):
                yield row
                continue
            subject, data = row[:2]
            op = Operation(
                "create", "publish_many", self.connection, subject=subject, size=size_of(data)
            )
            op.batch = batch
            with Running(self.watch, op):
                headers = self.watch.headers(op, row[2] if len(row) == 3 else None)
            yield subject, data, headers

    def _stored(
        self, kind: str, name: str, subject: str, data: Any, msg_id: str | Auto | None
    ) -> Operation:
        op = Operation(kind, name, self.connection, subject=subject, size=size_of(data))
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

    def ordered_consumer(self, stream: str, **options: Any) -> OrderedConsumer:
        consumer: OrderedConsumer = self._as(
            ObservedOrderedConsumer, super().ordered_consumer(stream, **options)
        )
        return consumer

    def subscribe(self, *arguments: Any, **options: Any) -> PushSubscription:
        callback = options.get("callback")
        if callable(callback):
            options["callback"] = handled(
                self.connection, self.watch, callback, options.get("queue")
            )
        made = super().subscribe(*arguments, **options)
        ordered = isinstance(made, OrderedPushSubscription)
        kind = ObservedOrderedPush if ordered else ObservedPushSubscription
        subscription: PushSubscription = observed(made, kind, self.connection, self.watch)
        return subscription

    def pull_subscribe(self, *arguments: Any, **options: Any) -> PullSubscription:
        made = super().pull_subscribe(*arguments, **options)
        subscription: PullSubscription = self._as(ObservedPullSubscription, made)
        return subscription

    def _observed(self, made: Consumer) -> Consumer:
        consumer: Consumer = self._as(ObservedConsumer, made)
        return consumer

    def _as(self, kind: type, made: Any) -> Any:
        return observed_first(made, kind, self.connection, self.watch)
