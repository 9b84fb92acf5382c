"""Hooks and Operation: the interface of observers, and the guard that keeps them harmless."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from jetsync._log import Log
from jetsync.client import Running, call_noted, guarded
from jetsync.client.callbacks import check_callback
from jetsync.errors import ConfigError
from jetsync.headers import HeaderInput, Headers
from jetsync.jetstream import JetStreamMsg
from jetsync.jetstream.message import origin, settled_by

if TYPE_CHECKING:
    from jetsync.client import Connection

__all__ = [
    "MOST_READ",
    "About",
    "Carry",
    "End",
    "Hooks",
    "LeftOut",
    "Note",
    "Operation",
    "Watch",
    "handled",
    "joined",
    "observe_handler",
    "size_of",
    "until_settled",
]

log: Log = Log("jetsync.connection")

MOST_READ = 128
"""Messages of a batch, the first ones, whose headers the hooks may read."""

About: TypeAlias = tuple[str, str, str | None, str | None, str | None, str | None]
"""The nature of a call: ``kind``, ``name``, the URL of the server, ``subject``, ``stream`` and
``consumer`` as an :class:`Operation` has them."""

Note: TypeAlias = tuple[About, str | None, int | None, float]
"""A call that is over: its nature, the name of the class that it raised (or None), the number of
its messages (0 where another call counts them), and its seconds."""

End = Callable[["BaseException | None"], object]
"""Told how an operation ended."""

Carry = Callable[[HeaderInput | None], HeaderInput | None]
"""Gives the headers of a message for those of the caller."""

_DROPPED = "a hook raised in %s() and is called no more"


class Operation:
    """One call that is observed. Fields that do not apply are None.

    ``kind`` is "publish", "request", "publish_many", "create" (one message of those that
    ``publish_many`` sends, where the hooks want it), "receive", "process", "settle" (``ack_sync``
    and dead letters) or "api" (a request to the JetStream API, with ``name`` such as
    "STREAM.INFO"); ``name`` the method; ``connection`` the connection. ``subject``, ``stream``,
    ``consumer`` (or the queue) say on what, ``count`` how many messages (None for a handler of
    ``processing`` in a loop of yours: what received the message counts it), ``bytes`` the size of
    the data, ``msg_id`` the ``Nats-Msg-Id``. ``seq`` and ``num_delivered`` are those of a message
    that is processed. ``headers`` are the headers of the message that is processed, or an iterator
    over the header blocks (bytes) of the first 128 messages that were received. ``batch`` is the
    operation that sends a message that is created, ``settled`` what became of a message that was
    processed: "ack", "refuse" (nak, term) or None. ``error`` and ``duration`` (seconds) are set at
    the end. ``state`` belongs to the hooks.
    """

    __slots__ = (
        "batch",
        "bytes",
        "connection",
        "consumer",
        "count",
        "duration",
        "error",
        "headers",
        "kind",
        "msg_id",
        "name",
        "num_delivered",
        "seq",
        "settled",
        "state",
        "stream",
        "subject",
    )

    def __init__(
        self,
        kind: str,
        name: str,
        connection: Connection | None,
        *,
        subject: str | None = None,
        stream: str | None = None,
        consumer: str | None = None,
        count: int | None = None,
        size: int | None = None,
        msg_id: str | None = None,
        headers: Any = None,
    ) -> None:
        self.kind: str = kind
        self.name: str = name
        self.connection: Connection | None = connection
        self.subject: str | None = subject
        self.stream: str | None = stream
        self.consumer: str | None = consumer
        self.count: int | None = count
        self.bytes: int | None = size
        self.msg_id: str | None = msg_id
        self.headers: Any = headers
        self.seq: int | None = None
        self.num_delivered: int | None = None
        self.batch: Operation | None = None
        self.settled: str | None = None
        self.error: BaseException | None = None
        self.duration: float | None = None
        self.state: Any = None

    def __repr__(self) -> str:
        return f"Operation({self.kind!r}, {self.name!r}, subject={self.subject!r})"


class LeftOut:
    """An operation that hooks leave out: see :meth:`Hooks.plan`."""

    __slots__ = ("headers", "notes")

    def __init__(
        self,
        headers: dict[str, str] | None = None,
        notes: deque[Note] | None = None,
    ) -> None:
        self.headers: dict[str, str] | None = headers
        """Headers for its messages all the same, read once; a name that the caller gave is kept."""
        self.notes: deque[Note] | None = notes
        """Gets a note when it is over, which is all that is told of it; None: not even that."""

    def carry(self, given: HeaderInput | None) -> HeaderInput | None:
        """Return the headers of a caller, ``given``, with these; a name that the caller gave is
        kept. Does not block. Raises nothing."""
        return joined(self.headers, given)

    def end(self) -> None:
        """The operation has ended. Not called for one without messages to process."""


class Hooks:
    """An observer of operations: derive from it. The methods must not block; each is called on the
    thread of the operation, but for the end of an asynchronous one.

    ``each_message``: each message of ``publish_many`` is an operation of its own too ("create").
    """

    each_message: bool = False

    def plan(self, kind: str, block: bytes) -> Any:
        """A publish, request, receive, process or settle begins, and nothing of it is known yet but
        the header block of the message that is processed. Return a :class:`LeftOut` to be told no
        more of it, which costs least; anything else is the ``state`` that ``begin`` finds."""
        return None

    def begin(self, op: Operation) -> None:
        """The operation begins."""

    def end(self, op: Operation) -> None:
        """It has ended; ``op.error`` is what it raises, ``op.duration`` the seconds it took."""

    def inject(self, op: Operation, headers: dict[str, str]) -> None:
        """Add headers to the messages of this operation. A name that the caller gave is kept."""

    def noted(self) -> None:
        """64 notes of operations that were left out wait in their ``LeftOut.notes``."""


class Watch:
    """The hooks of a connection, behind a guard: one that raises is logged once and dropped."""

    def __init__(self, hooks: Hooks) -> None:
        if not isinstance(hooks, Hooks):
            raise ConfigError(f"hooks must be a jetsync.observe.Hooks, not {type(hooks).__name__}")
        self.hooks: Hooks = hooks

    def drop(self, method: str) -> None:
        """Call the hooks no more: this method is raising."""
        self.hooks = Hooks()
        log.exception(_DROPPED, method)

    def plan(self, kind: str, block: bytes = b"") -> Any:
        """Ask the hooks whether they want an operation: see ``Hooks.plan``. Never raises."""
        # As `guarded` does it, but without the way through C: most operations are left out here.
        try:
            return self.hooks.plan(kind, block)
        except Exception:  # noqa: BLE001 - `drop` logs it
            self.drop("plan")
            return None

    @property
    def each_message(self) -> bool:
        """Whether each message of ``publish_many`` is an operation."""
        return self.hooks.each_message

    def begun(self, op: Operation) -> tuple[End, Carry]:
        """Tell of the beginning of an operation that ends with a future. Returns what to call at
        its end, and what gives the headers of its message."""
        running = Running(self, op)
        running.begin()
        return running.end, functools.partial(self.headers, op)

    def noted(self) -> None:
        """Tell that notes wait. Never raises."""
        guarded(self, "noted")

    def headers(self, op: Operation, given: HeaderInput | None) -> HeaderInput | None:
        """Return the headers of the caller with those of the hooks. Never raises."""
        added: dict[str, str] = {}
        guarded(self, "inject", op, added)
        return joined(added, given)


def joined(added: dict[str, str] | None, given: HeaderInput | None) -> HeaderInput | None:
    """Return the headers of the caller with those of the hooks, which come second. What is no
    mapping is returned as it is, for the call to refuse."""
    if not added or (given and not isinstance(given, Mapping)):
        return given
    if not given:
        return added
    return {**added, **(given.to_dict() if isinstance(given, Headers) else given)}


def until_settled(end: End, call: Callable[[], Any]) -> Any:
    """Make a call that returns a future; ``end`` is told of its error, or that it has none."""
    try:
        future = call()
    except BaseException as error:
        end(error)
        raise
    future.add_done_callback(lambda settled: end(settled.exception()))
    return future


def size_of(data: Any) -> int | None:
    """The number of bytes of a payload; None for what will be refused."""
    return len(data) if hasattr(data, "__len__") else None


def _name_of(handler: Any) -> str:
    name: str = getattr(handler, "__name__", type(handler).__name__)
    return name


def _processed(
    connection: Connection | None, handler: Any, msg: Any, queue: str | None, plan: Any
) -> Operation:
    """The operation of a handler that gets a message."""
    op = Operation("process", _name_of(handler), connection, subject=msg.subject, consumer=queue)
    op.state, op.bytes, op.headers = plan, len(msg.data), msg.headers
    if isinstance(msg, JetStreamMsg):
        metadata = msg.metadata
        op.stream, op.consumer = metadata.stream, metadata.consumer
        op.seq, op.num_delivered = metadata.stream_seq, metadata.num_delivered
        op.msg_id = msg.headers.get("Nats-Msg-Id")
    return op


def _about(connection: Connection | None, handler: Any, msg: Any, queue: str | None) -> About:
    """The nature of a handler that gets a message."""
    stream, consumer = origin(msg) if isinstance(msg, JetStreamMsg) else (None, queue)
    url = None if connection is None else connection.connected_url
    return "process", _name_of(handler), url, msg.subject, stream, consumer


def _block_of(msg: Any) -> bytes:
    """The header block of a message, or of the one that a request to a service wraps."""
    block: bytes = getattr(getattr(msg, "msg", msg), "raw_headers", b"")
    return block


class _Handling(threading.local):
    """The message whose handler runs on this thread as an operation."""

    msg: Any = None


_handling = _Handling()


def observe_handler(
    watch: Watch,
    connection: Connection | None,
    handler: Callable[[Any], Any],
    msg: Any,
    queue: str | None = None,
    *,
    counts: bool = True,
) -> Any:
    """Call a handler as an operation, unless an operation for this message runs here already.
    ``counts``: no other operation counts the message."""
    outer = _handling.msg
    if outer is msg:
        return handler(msg)
    plan = watch.plan("process", _block_of(msg))
    left_out = isinstance(plan, LeftOut)
    _handling.msg = msg
    try:
        if left_out and plan.notes is None:
            return handler(msg)
        if left_out:
            about = _about(connection, handler, msg, queue)
            return call_noted(watch, plan.notes, about, int(counts), handler, (msg,))
        op = _processed(connection, handler, msg, queue, plan)
        op.count = 1 if counts else None
        with Running(watch, op):
            try:
                return handler(msg)
            finally:
                if isinstance(msg, JetStreamMsg):
                    op.settled = settled_by(msg)
    finally:
        _handling.msg = outer
        if left_out:
            plan.end()


def handled(
    connection: Connection, watch: Watch, handler: Any, queue: str | None = None
) -> Callable[[Any], Any]:
    """Return a handler whose calls are operations. Raises ConfigError for what is no handler."""
    check_callback(handler)

    @functools.wraps(handler, updated=())
    def observed(msg: Any) -> Any:
        return observe_handler(watch, connection, handler, msg, queue)

    return observed
