"""Observed consumers and subscriptions: what receives messages, as operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, ClassVar, TypeVar, cast

from jetsync.client import Connection, Msg, Running, Subscription, call_noted
from jetsync.client.port import Port, port_of
from jetsync.jetstream import (
    Consumer,
    JetStreamMsg,
    OrderedConsumer,
    PullSubscription,
    PushSubscription,
)
from jetsync.jetstream.message import HeaderBlocks, MsgBatch
from jetsync.jetstream.push.ordered import OrderedPushSubscription
from jetsync.observe.hooks import MOST_READ, LeftOut, Operation, Watch, handled

__all__ = [
    "ObservedConsumer",
    "ObservedOrderedConsumer",
    "ObservedOrderedPush",
    "ObservedPullSubscription",
    "ObservedPushSubscription",
    "ObservedSubscription",
    "observed",
    "observed_first",
]

Method = TypeVar("Method", bound=Callable[..., Any])


def observed(thing: Any, kind: type, connection: Connection, watch: Watch) -> Any:
    """Make an object that the user holds one of an observed class."""
    thing.__class__ = kind
    thing.watch, thing.connection, thing.port = watch, connection, port_of(connection)
    return thing


def observed_first(thing: Any, kind: type, connection: Connection, watch: Watch) -> Any:
    """As :func:`observed`, for an object that no other thread has yet. Its attributes are found
    quickly: the interpreter remembers where they are in a dict that is made anew, but not in one
    that came with another class."""
    observed(thing, kind, connection, watch)
    thing.__dict__ = {**thing.__dict__}
    return thing


class ObservedSubscription(Subscription):
    """A subscription whose ``next`` is an operation."""

    connection: Connection
    watch: Watch
    port: Port

    def next(self, timeout: Any = None) -> Msg:
        plan = self.watch.plan("receive")
        if isinstance(plan, LeftOut):
            if plan.notes is None:
                return super().next(timeout)
            about = ("receive", "next", self.port.url, self.subject, None, self.queue)
            return call_noted(self.watch, plan.notes, about, 1, super().next, (timeout,))
        op = Operation("receive", "next", self.connection, subject=self.subject)
        op.consumer, op.state = self.queue, plan
        with Running(self.watch, op):
            msg = super().next(timeout)
            op.count, op.bytes, op.headers = 1, len(msg.data), iter([msg.raw_headers])
        return msg


def _operation(
    receive: Any, tell: Callable[[Operation, Any], None], count: int | None = None
) -> Any:
    """The method as an operation; ``tell`` notes what it returned: ``count`` messages, or a
    batch."""
    name = receive.__name__

    @wraps(receive)
    def observed_receive(*arguments: Any, **options: Any) -> Any:
        self = arguments[0]
        plan = self.watch.plan("receive")
        stream, consumer = self.origin
        if isinstance(plan, LeftOut):
            if plan.notes is None:
                return receive(*arguments, **options)
            about = ("receive", name, self.port.url, None, stream, consumer)
            return call_noted(self.watch, plan.notes, about, count, receive, arguments, options)
        op = Operation("receive", name, self.connection, stream=stream, consumer=consumer)
        op.state = plan
        with Running(self.watch, op):
            found = receive(*arguments, **options)
            tell(op, found)
        return found

    return observed_receive


def _batch(receive: Method) -> Method:
    """A method that returns a batch, as an operation."""

    def tell(op: Operation, batch: MsgBatch) -> None:
        op.count, op.headers = len(batch), HeaderBlocks(batch, MOST_READ)

    return cast("Method", _operation(receive, tell))


def _one(receive: Method) -> Method:
    """A method that returns one message, as an operation."""

    def tell(op: Operation, msg: JetStreamMsg) -> None:
        op.count, op.headers, op.subject = 1, iter([msg.raw_headers]), msg.subject

    return cast("Method", _operation(receive, tell, 1))


def _handling(consume: Method) -> Method:
    """``consume`` with a callback whose calls are operations."""

    @wraps(consume)
    def observed_consume(self: Any, callback: Any, **options: Any) -> Any:
        return consume(self, handled(self.connection, self.watch, callback), **options)

    return cast("Method", observed_consume)


class _Observed:
    """The attributes that ``observed`` gives to an object, and the origin of its messages."""

    connection: Connection
    watch: Watch
    port: Port
    is_ordered: ClassVar[bool] = False

    @cached_property
    def origin(self) -> tuple[str, str | None]:
        """The stream and the consumer; None: it has another consumer after each reset."""
        receiver: Any = self
        return receiver.stream_name, None if self.is_ordered else receiver.name


class ObservedConsumer(Consumer, _Observed):
    """A consumer with hooks."""

    fetch = _batch(Consumer.fetch)
    fetch_no_wait = _batch(Consumer.fetch_no_wait)
    next = _one(Consumer.next)
    consume = _handling(Consumer.consume)


class ObservedOrderedConsumer(OrderedConsumer, _Observed):
    """An ordered consumer with hooks."""

    is_ordered = True
    fetch = _batch(OrderedConsumer.fetch)
    fetch_no_wait = _batch(OrderedConsumer.fetch_no_wait)
    next = _one(OrderedConsumer.next)
    consume = _handling(OrderedConsumer.consume)


class ObservedPullSubscription(PullSubscription, _Observed):
    """A pull subscription with hooks."""

    fetch = _batch(PullSubscription.fetch)
    next = _one(PullSubscription.next)
    consume = _handling(PullSubscription.consume)


class ObservedPushSubscription(PushSubscription, _Observed):
    """A push subscription with hooks."""

    next = _one(PushSubscription.next)


class ObservedOrderedPush(OrderedPushSubscription, _Observed):
    """An ordered push subscription with hooks."""

    is_ordered = True
    next = _one(OrderedPushSubscription.next)
