"""Observed consumers and subscriptions: what receives messages, as operations.

The methods pass their arguments on as they are; their signatures are those of the base classes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from jetsync.client import Connection, Msg, Subscription
from jetsync.jetstream import (
    ConsumeContext,
    Consumer,
    JetStreamMsg,
    OrderedConsumer,
    PullSubscription,
    PushSubscription,
)
from jetsync.jetstream.message import MsgBatch
from jetsync.jetstream.push.ordered import OrderedPushSubscription
from jetsync.observe.hooks import Operation, Watch, handled

__all__ = [
    "ObservedConsumer",
    "ObservedOrderedConsumer",
    "ObservedOrderedPush",
    "ObservedPullSubscription",
    "ObservedPushSubscription",
    "ObservedSubscription",
    "observed",
]

_LINKED = 128
"""The largest batch of which the hooks may read the headers of every message."""
_SAMPLED = 8
"""Messages of a larger batch whose headers they may read: fewer, so that observing costs little
beside receiving."""


def observed(thing: Any, kind: type, connection: Connection, watch: Watch) -> Any:
    """Make an object that the user holds one of an observed class."""
    thing.__class__ = kind
    thing.watch, thing.connection, thing.memo = watch, connection, {}
    return thing


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


class _Inside(threading.local):
    """Whether an observed call runs on this thread: those that it makes itself are no others."""

    receives: bool = False


_inside = _Inside()


def _batch(observed: Any, name: str, take: Any, arguments: Any, options: Any) -> MsgBatch:
    """Receive a batch as an operation."""

    def told(op: Operation, batch: MsgBatch) -> None:
        op.count, op.headers = len(batch), _headers(batch)

    batch: MsgBatch = _received(observed, name, take, arguments, options, told)
    return batch


def _one(observed: Any, name: str, take: Any, arguments: Any, options: Any) -> JetStreamMsg:
    """Receive one message as an operation."""

    def told(op: Operation, msg: JetStreamMsg) -> None:
        op.count, op.headers, op.subject = 1, _headers([msg]), msg.subject

    msg: JetStreamMsg = _received(observed, name, take, arguments, options, told)
    return msg


def _received(observed: Any, name: str, take: Any, arguments: Any, options: Any, told: Any) -> Any:
    if _inside.receives:
        return take(*arguments, **options)
    stream, consumer = observed.place()
    op = Operation("receive", name, observed.connection, stream=stream, consumer=consumer)
    op.memo = observed.memo
    _inside.receives = True
    try:
        with observed.watch.running(op):
            found = take(*arguments, **options)
            told(op, found)
        return found
    finally:
        _inside.receives = False


def _handler(observed: Any, callback: Any) -> Any:
    return handled(observed.connection, observed.watch, callback)


class ObservedConsumer(Consumer):
    """A consumer with hooks."""

    connection: Connection
    watch: Watch
    memo: dict[str, Any]

    def fetch(self, *arguments: Any, **options: Any) -> MsgBatch:
        return _batch(self, "fetch", super().fetch, arguments, options)

    def fetch_no_wait(self, *arguments: Any, **options: Any) -> MsgBatch:
        return _batch(self, "fetch_no_wait", super().fetch_no_wait, arguments, options)

    def next(self, *arguments: Any, **options: Any) -> JetStreamMsg:
        return _one(self, "next", super().next, arguments, options)

    def consume(self, callback: Any, **options: Any) -> ConsumeContext:
        return super().consume(_handler(self, callback), **options)

    def place(self) -> tuple[str | None, str | None]:
        """Return its stream and consumer."""
        info = self.cached_info
        return info.stream_name, info.name


class ObservedOrderedConsumer(OrderedConsumer):
    """An ordered consumer with hooks."""

    connection: Connection
    watch: Watch
    memo: dict[str, Any]
    stream: str

    def fetch(self, *arguments: Any, **options: Any) -> MsgBatch:
        return _batch(self, "fetch", super().fetch, arguments, options)

    def fetch_no_wait(self, *arguments: Any, **options: Any) -> MsgBatch:
        return _batch(self, "fetch_no_wait", super().fetch_no_wait, arguments, options)

    def next(self, *arguments: Any, **options: Any) -> JetStreamMsg:
        return _one(self, "next", super().next, arguments, options)

    def consume(self, callback: Any, **options: Any) -> ConsumeContext:
        return super().consume(_handler(self, callback), **options)

    def place(self) -> tuple[str | None, str | None]:
        """Return its stream and consumer."""
        return self.stream, None  # it has another consumer after each reset


class ObservedPullSubscription(PullSubscription):
    """A pull subscription with hooks."""

    connection: Connection
    watch: Watch
    memo: dict[str, Any]

    def fetch(self, *arguments: Any, **options: Any) -> MsgBatch:
        return _batch(self, "fetch", super().fetch, arguments, options)

    def next(self, *arguments: Any, **options: Any) -> JetStreamMsg:
        return _one(self, "next", super().next, arguments, options)

    def consume(self, callback: Any, **options: Any) -> ConsumeContext:
        return super().consume(_handler(self, callback), **options)

    def place(self) -> tuple[str | None, str | None]:
        """Return its stream and consumer."""
        return self.stream_name, self.name


class ObservedPushSubscription(PushSubscription):
    """A push subscription with hooks."""

    connection: Connection
    watch: Watch
    memo: dict[str, Any]

    def next(self, timeout: Any = None) -> JetStreamMsg:
        return _one(self, "next", super().next, (timeout,), {})

    def place(self) -> tuple[str | None, str | None]:
        """Return its stream and consumer."""
        info = self.cached_info
        return info.stream_name, info.name


class ObservedOrderedPush(OrderedPushSubscription):
    """An ordered push subscription with hooks."""

    connection: Connection
    watch: Watch
    memo: dict[str, Any]

    def next(self, timeout: Any = None) -> JetStreamMsg:
        return _one(self, "next", super().next, (timeout,), {})

    def place(self) -> tuple[str | None, str | None]:
        """Return its stream and consumer."""
        return self.cached_info.stream_name, None  # it has another consumer after each reset


def _headers(messages: MsgBatch | Sequence[Any]) -> Iterator[bytes]:
    # By iteration: an index would make the batch keep an object for each of its messages.
    count = len(messages)
    return (msg.raw_headers for msg in islice(messages, count if count <= _LINKED else _SAMPLED))
