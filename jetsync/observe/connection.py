"""Observed connections: subclasses of the classes that users hold, whose calls are operations.

Without hooks ``connect`` makes a plain Connection, and nothing of this is on the way of a message.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from jetsync.client import (
    Connection,
    ConnectOptions,
    Msg,
    Noted,
    RequestFuture,
    Running,
    Subscription,
    call_noted,
    connecting,
)
from jetsync.client.port import port_of
from jetsync.jetstream import JetStream
from jetsync.observe.consuming import ObservedSubscription, observed, observed_first
from jetsync.observe.hooks import (
    Carry,
    End,
    Hooks,
    LeftOut,
    Operation,
    Watch,
    handled,
    observe_handler,
    size_of,
    until_settled,
)
from jetsync.observe.jetstream import ObservedJetStream

__all__ = ["ObservedConnection", "install", "processing", "uninstall"]

_installed: list[Watch] = []


def install(hooks: Hooks) -> None:
    """Observe the connections that are made from now on in this process. Replaces earlier hooks;
    ``connect(hooks=...)`` wins over them. Does not block."""
    _installed[:] = [Watch(hooks)]
    connecting.observer = hooks


def uninstall() -> None:
    """Undo :func:`install` for connections that are made from now on."""
    _installed.clear()
    connecting.observer = None


def processing(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a handler of messages whose calls are operations of the installed hooks: for handlers
    that a loop of yours calls. Those of ``consume``, ``subscribe``, services and workers are
    observed already; they stay one operation per message."""

    @functools.wraps(handler)
    def observed(msg: Any) -> Any:
        if not _installed:
            return handler(msg)
        return observe_handler(_installed[0], None, handler, msg, counts=False)

    return observed


def _followed(running: Running, replies: Iterator[Msg]) -> Iterator[Any]:
    """The replies of a request; the operation ends with the last one, or when they are dropped."""
    error: BaseException | None = None
    try:
        yield None
        yield from replies
    except GeneratorExit:
        raise
    except BaseException as raised:
        error = raised
        raise
    finally:
        running.end(error)


_publish, _request = Connection.publish, Connection.request


class ObservedConnection(Connection):
    """A connection with hooks."""

    def __init__(self, options: ConnectOptions, hooks: Hooks) -> None:
        self.watch: Watch = Watch(hooks)
        super().__init__(options)
        port = port_of(self)
        port.observed, port.operation = self._handled, self._operation

    def _handled(self, handler: Any, queue: str | None) -> Callable[[Any], Any]:
        return handled(self, self.watch, handler, queue)

    def _operation(
        self, kind: str, name: str, subject: str | None = None, **about: Any
    ) -> AbstractContextManager[object]:
        if kind == "api":
            return Running(self.watch, Operation(kind, name, self, subject=subject, **about))
        plan = self.watch.plan(kind)
        if isinstance(plan, LeftOut):
            nature = (kind, name, self._port.url, subject, about["stream"], about["consumer"])
            return Noted(self.watch, plan.notes, nature, about["count"])
        op = Operation(kind, name, self, subject=subject, **about)
        op.state = plan
        return Running(self.watch, op)

    def publish(
        self, subject: str, data: Any = b"", *, reply: Any = None, headers: Any = None
    ) -> None:
        plan = self.watch.plan("publish")
        if isinstance(plan, LeftOut):
            headers, notes = plan.carry(headers), plan.notes
            if notes is None:
                return super().publish(subject, data, reply=reply, headers=headers)
            about = ("publish", "publish", self._port.url, subject, None, None)
            given = {"reply": reply, "headers": headers}
            return call_noted(self.watch, notes, about, 1, _publish, (self, subject, data), given)
        op = Operation("publish", "publish", self, subject=subject, size=size_of(data))
        op.state = plan
        with Running(self.watch, op):
            super().publish(subject, data, reply=reply, headers=self.watch.headers(op, headers))

    def request(
        self, subject: str, data: bytes = b"", *, headers: Any = None, **options: Any
    ) -> Msg:
        plan = self.watch.plan("request")
        if isinstance(plan, LeftOut):
            headers, notes = plan.carry(headers), plan.notes
            if notes is None:
                return super().request(subject, data, headers=headers, **options)
            about = ("request", "request", self._port.url, subject, None, None)
            options["headers"] = headers
            return call_noted(self.watch, notes, about, 1, _request, (self, subject, data), options)
        op = Operation("request", "request", self, subject=subject, size=size_of(data))
        op.state = plan
        with Running(self.watch, op):
            return super().request(
                subject, data, headers=self.watch.headers(op, headers), **options
            )

    def request_many(
        self, subject: str, data: bytes = b"", *, headers: Any = None, **options: Any
    ) -> Iterator[Msg]:
        op = Operation("request", "request_many", self, subject=subject, size=size_of(data))
        running = Running(self.watch, op)
        running.begin()
        try:
            replies = super().request_many(
                subject, data, headers=self.watch.headers(op, headers), **options
            )
        except BaseException as error:
            running.end(error)
            raise
        followed = _followed(running, replies)
        next(followed)  # so that it also ends when no reply is taken
        return followed

    def request_async(
        self, subject: str, data: bytes = b"", *, headers: Any = None, **options: Any
    ) -> RequestFuture:
        plan, request = self.watch.plan("request"), super().request_async
        end: End
        carry: Carry
        if isinstance(plan, LeftOut):
            carry = plan.carry
            if plan.notes is None:
                return request(subject, data, headers=carry(headers), **options)
            about = ("request", "request_async", self._port.url, subject, None, None)
            end = Noted(self.watch, plan.notes, about, 1).end
        else:
            op = Operation("request", "request_async", self, subject=subject, size=size_of(data))
            op.state = plan
            end, carry = self.watch.begun(op)
        made: RequestFuture = until_settled(
            end, lambda: request(subject, data, headers=carry(headers), **options)
        )
        return made

    def subscribe(self, subject: str, **options: Any) -> Subscription:
        callback, queue = options.get("callback"), options.get("queue")
        if callable(callback):
            options["callback"] = handled(self, self.watch, callback, queue)
        subscription = super().subscribe(subject, **options)
        made: Subscription = observed(subscription, ObservedSubscription, self, self.watch)
        return made

    def jetstream(self, **options: Any) -> JetStream:
        js = super().jetstream(**options)
        made: JetStream = observed_first(js, ObservedJetStream, self, self.watch)
        return made
