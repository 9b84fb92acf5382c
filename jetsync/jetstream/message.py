"""JetStreamMsg: a message that a consumer delivered, and MsgBatch: many of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, overload

from jetsync._core.batch import HeaderBlocks, ack_all
from jetsync._core.delivered import Delivered, is_settled
from jetsync._core.message import ACKED, CONFIRMED, DONE, message_jsack, parse_jsack
from jetsync._counted import counted
from jetsync._deadline import Seconds, to_seconds
from jetsync.client import MsgBatch as _CoreBatch
from jetsync.client.port import port_of
from jetsync.errors import ConfigError, NotJetStreamMessageError
from jetsync.jetstream.acks.confirm import confirm, confirm_all
from jetsync.jetstream.acks.keep_alive import KeepAlive, interval_of
from jetsync.jetstream.acks.wait import tell_if_late

if TYPE_CHECKING:
    import pyarrow


__all__ = [
    "TERMINATED",
    "HeaderBlocks",
    "JetStreamMsg",
    "MsgBatch",
    "MsgMetadata",
    "is_refused",
    "is_terminated",
    "origin",
    "parse_ack_subject",
    "settled_by",
    "to_delay",
]

_POSITIVE = DONE | ACKED
TERMINATED = DONE | 8
"""The flags of a message that was settled by term; _core knows the others."""
_SHOWN = 10  # messages of a batch in a notebook
_LONGEST_DELAY = 2**63 / 1e9  # seconds that the wire holds, as nanoseconds
_LONG = 1.0  # seconds: a message that the user held for less cannot have been late
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class MsgMetadata:
    """Where a message stands in its stream and how often it was delivered (ADR-15).

    ``timestamp`` is when the stream stored it (UTC, microseconds; ``timestamp_ns`` has all digits),
    ``num_pending`` how many more the consumer had to deliver then.
    """

    stream: str
    """The name of the stream."""
    consumer: str
    """The name of the consumer."""
    num_delivered: int
    """How often it was delivered, this time included."""
    stream_seq: int
    """Its sequence in the stream."""
    consumer_seq: int
    """Its sequence among the deliveries of the consumer."""
    timestamp_ns: int
    """When the stream stored it: nanoseconds since 1970 (UTC)."""
    num_pending: int
    """How many more the consumer had to deliver then."""
    domain: str | None = None
    """The JetStream domain, if there is one."""
    account_hash: str | None = None
    """The hash of the stream's account, if the server sends it."""

    @property
    def timestamp(self) -> datetime:
        """When the stream stored the message (UTC)."""
        return _EPOCH + timedelta(microseconds=self.timestamp_ns // 1000)


def _metadata(fields: tuple[Any, ...]) -> MsgMetadata:
    domain, account, stream, consumer, delivered, stream_seq, consumer_seq, timestamp, pending = (
        fields
    )
    return MsgMetadata(
        stream,
        consumer,
        delivered,
        stream_seq,
        consumer_seq,
        timestamp,
        pending,
        domain or None,
        account or None,
    )


def parse_ack_subject(reply: str) -> MsgMetadata:
    """Read a ``$JS.ACK`` subject of either form: 9 tokens, or 11 and more.

    Raises NotJetStreamMessageError for anything else. Never blocks.
    """
    return _metadata(parse_jsack(reply))


def to_delay(delay: Seconds) -> float:
    """Return the time until a redelivery as ``float`` seconds. Raises ConfigError, also for more
    than the wire holds. Never blocks."""
    seconds = to_seconds(delay, "delay")
    if seconds >= _LONGEST_DELAY:
        raise ConfigError(f"delay must be below 292 years, got {delay!r}")
    return seconds


def _nak(delay: Seconds | None) -> bytes:
    if delay is None:
        return b"-NAK"
    return b"-NAK " + json.dumps({"delay": round(to_delay(delay) * 1e9)}).encode()


def _term(reason: str | None) -> bytes:
    if reason is None:
        return b"+TERM"
    if not isinstance(reason, str):
        raise ConfigError(f"the reason of term() must be a str, not {type(reason).__name__}")
    if "\r" in reason or "\n" in reason:
        raise ConfigError("the reason of term() must be one line")
    return b"+TERM " + reason.encode() if reason else b"+TERM"


class JetStreamMsg(Delivered):
    """A message delivered by a consumer: a :class:`jetsync.Msg` with metadata and acknowledgements.

    Acknowledgements do not wait for the server (but :meth:`ack_sync` does). While there is no link
    they are kept and sent after the reconnect. An acknowledgement under way when a link broke may
    be lost: ``ack`` and ``term`` are sent again then; after a lost ``nak`` the message comes again
    when ``ack_wait`` is over. After a terminal one (ack, nak, term) every further one is ignored,
    and with ack policy ``none`` all are (ADR-15). Thread-safe.
    """

    __slots__ = ()

    @property
    def metadata(self) -> MsgMetadata:
        """Stream, sequences, time and delivery count. Raises NotJetStreamMessageError."""
        return _metadata(message_jsack(self))

    @property
    def seq(self) -> int:
        """Its sequence in the stream, ``metadata.stream_seq``. Raises NotJetStreamMessageError."""
        return message_jsack(self)[5]

    def _late(self) -> None:
        tell_if_late(self._context, self._owner, self._age())

    def nak(self, delay: Seconds | None = None) -> None:
        """Ask for redelivery, after ``delay`` seconds when given. Does not wait for the server.

        Raises ConfigError for a delay that is none, ConnectionClosedError, OutboundFullError when
        there is no room for it.
        """
        # Never sent twice: a second nak could take the message from the client that has it by then.
        self._settle(_nak(delay), DONE, False)

    def term(self, reason: str | None = None) -> None:
        """Stop redelivery for good; the reason (one line) goes into the server's advisory. Does not
        wait for the server.

        Raises ConfigError for a reason that is no str or has several lines, ConnectionClosedError,
        OutboundFullError when there is no room for it.
        """
        self._settle(_term(reason), TERMINATED, True)

    def ack_sync(self, timeout: Seconds | None = None) -> None:
        """Acknowledge and wait until the server has confirmed it: then it is never redelivered.

        Blocks up to ``timeout`` seconds (default: the connection's) and sends again when there is
        no answer and after a reconnect. Safe to repeat, also after :meth:`ack`; ignored after nak
        and term, which it cannot undo. Raises TimeoutError (the message may be acknowledged or
        not); NoRespondersError when the consumer is gone.
        """
        context = self._context
        if context is not None and context.ack_none:
            return
        if self._flags & CONFIRMED or self._flags & _POSITIVE == DONE:
            return
        if self._owner is None or self.reply is None:
            raise ConfigError("the message is not bound to a connection")
        port = port_of(self._owner)
        stream, consumer = origin(self)
        with port.operation(
            "settle", "ack_sync", subject=self.subject, stream=stream, consumer=consumer, count=1
        ):
            confirm(port, self.reply, port.seconds(timeout))
        self._flags = _POSITIVE | CONFIRMED
        if self._age() > _LONG:
            self._late()

    def ack_next(
        self,
        max_messages: int = 1,
        *,
        max_bytes: int | None = None,
        timeout: Seconds | None = None,
        no_wait: bool = False,
        group: str | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
    ) -> MsgBatch:
        """Acknowledge and fetch the next messages of the consumer with one request (``+NXT``).

        Takes (``max_bytes``, ``group``, ``min_pending``, ``min_ack_pending``, ``priority``) and
        returns what ``Consumer.fetch`` does; the batch may be empty. The acknowledgement
        is like :meth:`ack`: it is not confirmed. On a message that is settled already it only
        fetches.

        Blocks up to ``timeout`` seconds (default: the connection's) until ``max_messages`` came, or
        with ``no_wait`` for a round trip only. Raises PullUnansweredError, a TimeoutError, when
        nothing came and the server has not said that there is nothing; ConsumerDeletedError;
        PermissionsError; PullTerminatedError when the server refuses the pull; ConfigError, also
        with ack policy ``none`` and for a message without its consumer; ConnectionClosedError.
        """
        consumer = self._context
        if self._owner is None or not hasattr(consumer, "ack_and_fetch"):
            raise ConfigError("the message has no consumer to fetch from")
        batch: MsgBatch = consumer.ack_and_fetch(
            self,
            max_messages=max_messages,
            max_bytes=max_bytes,
            timeout=timeout,
            no_wait=no_wait,
            group=group,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
            priority=priority,
        )
        return batch

    def _sent_ack(self) -> None:
        self._flags = _POSITIVE

    def keep_alive(self, interval: Seconds | None = None) -> KeepAlive:
        """Return a context manager that keeps the message from being redelivered while its block
        lasts: it sends :meth:`in_progress` at once and then every ``interval`` seconds (default: a
        third of the consumer's ``ack_wait``) on the connection's timer thread.

        It ends with the block, a terminal acknowledgement or the connection. Does not block.
        Raises ConfigError for an interval that is none.
        """
        if self._owner is None:
            raise ConfigError("the message is not bound to a connection")
        return KeepAlive(
            self.in_progress,
            lambda: is_settled(self),
            port_of(self._owner),
            interval_of(self._context, interval),
        )

    def _context_and_owner(self) -> tuple[Any, Any]:
        """Return its consumer's shared part, and the connection."""
        return self._context, self._owner


def settled_by(msg: JetStreamMsg) -> str | None:
    """How a message is settled: "ack", "refuse" (nak or term), or None when it is not."""
    flags = msg._flags
    return None if not flags & DONE else "ack" if flags & ACKED else "refuse"


def is_refused(msg: JetStreamMsg) -> bool:
    """Whether a message was settled by nak or term, and not acknowledged."""
    return msg._flags & (DONE | ACKED) == DONE


def is_terminated(msg: JetStreamMsg) -> bool:
    """Whether a message was settled by term."""
    return msg._flags & TERMINATED == TERMINATED


def origin(msg: JetStreamMsg) -> tuple[str | None, str | None]:
    """The stream and the consumer that a message came from; None and None for what any publisher
    sent to the inbox of a consumer."""
    try:
        fields = message_jsack(msg)
    except NotJetStreamMessageError:
        return None, None
    return fields[2], fields[3]


def _seq_of(msg: JetStreamMsg) -> int | str:
    try:
        return msg.seq
    except NotJetStreamMessageError:
        return ""


if TYPE_CHECKING:

    class _Rows(_CoreBatch, Sequence[JetStreamMsg]):
        """For a type checker a batch is a Sequence."""

        @overload
        def __getitem__(self, item: int, /) -> JetStreamMsg: ...
        @overload
        def __getitem__(self, item: slice, /) -> list[JetStreamMsg]: ...
        def __getitem__(self, item: int | slice, /) -> JetStreamMsg | list[JetStreamMsg]: ...
        def __iter__(self) -> Iterator[JetStreamMsg]: ...

else:

    class _Rows(_CoreBatch):
        """A sequence by its methods and for ``match``, but no instance of Sequence: Polars takes
        what is one for a list of Python objects, before it looks for columns (decision 19)."""

        index = Sequence.index
        count = Sequence.count


class MsgBatch(_Rows):
    """A sequence of :class:`JetStreamMsg` that owns its bytes; what ``fetch`` returns.

    Message objects are built only on access; every iteration builds new ones, and all objects of
    one message share its acknowledgement state. ``to_arrow``, ``__arrow_c_array__`` and
    ``__arrow_c_stream__`` export all messages as columns without building objects, so pyarrow,
    DuckDB and Polars take a batch as it is: ``polars.DataFrame(batch)``.

    It has all methods of a sequence, but ``isinstance(batch, collections.abc.Sequence)`` is False:
    libraries of columns make rows of Python objects out of what is one.
    """

    error: Exception | None = None
    """Why the pull ended early, or None."""
    _ack_none: bool = False

    def __repr__(self) -> str:
        about = [counted(len(self), "message"), counted(self.nbytes, "byte")]
        if self.first_seq is not None:
            about.insert(1, f"seq {self.first_seq}..{self.last_seq}")
        if self.error is not None:
            about.append(f"error={self.error!r}")
        return f"{type(self).__name__}({', '.join(about)})"

    def _repr_html_(self) -> str:
        """Return its first messages as a table, for notebooks. Builds objects of those only."""
        from jetsync.jetstream._html import as_rows

        names = ("seq", "subject", "headers", "data")
        rows = [(_seq_of(msg), msg.subject, msg.headers or "", msg.data) for msg in self[:_SHOWN]]
        return as_rows(repr(self), names, rows, len(self) - len(rows))

    def ack(self) -> None:
        """Acknowledge every message in one write. Does not wait for the server.

        Messages that were settled one by one (say, ``batch[3].nak()``) are left out. After a
        terminal acknowledgement of the whole batch every further one is ignored. Raises
        ConnectionClosedError, OutboundFullError when there is no room for it.
        """
        self._settle(b"+ACK", _POSITIVE)

    def nak(self, delay: Seconds | None = None) -> None:
        """Ask for redelivery of every message that is not settled, after ``delay`` seconds when
        given. Does not wait for the server.

        Raises ConfigError for a delay that is none, ConnectionClosedError, OutboundFullError when
        there is no room for it.
        """
        self._settle(_nak(delay), DONE)

    def in_progress(self) -> None:
        """Restart ``ack_wait`` for every message that is not settled. Does not wait for the
        server. Raises ConnectionClosedError, OutboundFullError when there is no room for it.
        """
        if not self._is_settled():
            ack_all(self, b"+WPI")
            self._kept_alive()

    def _is_settled(self) -> bool:
        return bool(self._flags & DONE) or self._ack_none

    def _settle(self, payload: bytes, flags: int) -> None:
        if not self._is_settled():
            held = self._age()
            ack_all(self, payload, None, flags)
            if flags & ACKED and held > _LONG:
                tell_if_late(*self[0]._context_and_owner(), held)

    def ack_sync(self, timeout: Seconds | None = None) -> None:
        """Acknowledge every message and wait until the server has confirmed all of them, but for
        those that were refused (nak, term) one by one.

        Blocks up to ``timeout`` seconds (default: the connection's) for the whole batch. Raises
        TimeoutError: then some are confirmed and some are not, and repeating it is safe;
        NoRespondersError when the consumer is gone; PermissionsError, ConnectionClosedError.
        """
        if self._ack_none or self._flags & CONFIRMED or not len(self):
            return
        if self._flags & _POSITIVE == DONE:
            return
        context, owner = self[0]._context_and_owner()
        port = port_of(owner)
        stream, consumer = origin(self[0])
        about = {"stream": stream, "consumer": consumer, "count": len(self)}
        with port.operation("settle", "ack_sync", **about):
            confirm_all(self, port, port.seconds(timeout))
        self._note(_POSITIVE | CONFIRMED)
        tell_if_late(context, owner, self._age())

    def keep_alive(self, interval: Seconds | None = None) -> KeepAlive:
        """Return a context manager that keeps the messages from being redelivered while its block
        lasts: those that are not settled yet, at once and then every ``interval`` seconds (default:
        a third of the consumer's ``ack_wait``), in one write on the connection's timer thread. It
        ends with the block, a terminal acknowledgement of all or the connection. Does not block.
        Raises ConfigError for an empty batch and an interval that is none.
        """
        if not len(self):
            raise ConfigError("an empty batch has nothing to keep alive")
        context, owner = self[0]._context_and_owner()
        return KeepAlive(
            self.in_progress, self._is_settled, port_of(owner), interval_of(context, interval)
        )

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        text_headers: bool = False,
        microseconds: bool = False,
    ) -> pyarrow.RecordBatch:
        """Return a pyarrow RecordBatch; needs the ``arrow`` extra. Builds no message objects.

        ``columns`` chooses and orders them (default: all). Header values are binary, or with
        ``text_headers`` strings in which bytes that are not UTF-8 became U+FFFD. Times are
        nanoseconds, or cut to ``microseconds``. Raises ConfigError for an unknown column and when
        pyarrow is missing.
        """
        try:
            import pyarrow
        except ImportError:
            raise ConfigError('to_arrow() needs pyarrow: pip install "jetsync[arrow]"') from None
        schema, array = self._arrow_capsules(columns, text_headers, microseconds)
        return pyarrow.record_batch(_Capsules(schema, array))


class _Capsules:
    """An object with the Arrow C data interface, for pyarrow."""

    def __init__(self, schema: object, array: object) -> None:
        self._pair = schema, array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._pair
