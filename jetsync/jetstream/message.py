"""JetStreamMsg: a message that a consumer delivered, and MsgBatch: many of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, overload

from jetsync._core.message import message_jsack, parse_jsack
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync.client import Msg
from jetsync.client import MsgBatch as _CoreBatch
from jetsync.errors import ConfigError, DisconnectedError, NoRespondersError, TimeoutError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["JetStreamMsg", "MsgBatch", "MsgMetadata", "parse_ack_subject"]

_DONE = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclasses.dataclass(frozen=True)
class MsgMetadata:
    """Where a message stands in its stream and how often it was delivered (ADR-15).

    ``timestamp`` is when the stream stored it (UTC, microseconds; ``timestamp_ns`` has all digits),
    ``num_pending`` how many more the consumer had to deliver then.
    """

    stream: str
    consumer: str
    num_delivered: int
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    num_pending: int
    domain: str | None = None
    account_hash: str | None = None

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


def _nak(delay: Seconds | None) -> bytes:
    if delay is None:
        return b"-NAK"
    return b"-NAK " + json.dumps({"delay": round(to_seconds(delay, "delay") * 1e9)}).encode()


class JetStreamMsg(Msg):
    """A message delivered by a consumer: a :class:`Msg` with metadata and acknowledgements.

    Acknowledgements do not wait for the server (but :meth:`ack_sync` does). After a terminal one
    (ack, nak, term) every further one is ignored, and with ack policy ``none`` all are (ADR-15).
    Thread-safe.
    """

    __slots__ = ()

    @property
    def metadata(self) -> MsgMetadata:
        """Stream, sequences, time and delivery count. Raises NotJetStreamMessageError."""
        return _metadata(message_jsack(self))

    @property
    def is_acked(self) -> bool:
        """Whether a terminal acknowledgement was sent from this object."""
        return bool(self._flags & _DONE)

    def _settle(self, payload: bytes) -> None:
        if self._flags & _DONE or (self._context is not None and self._context._ack_none):
            return
        self._answer(payload)
        self._flags |= _DONE

    def ack(self) -> None:
        """Tell the consumer that the message is dealt with. Does not block; best effort."""
        self._settle(b"+ACK")

    def nak(self, delay: Seconds | None = None) -> None:
        """Ask for redelivery, after ``delay`` seconds when given. Does not block."""
        self._settle(_nak(delay))

    def term(self, reason: str | None = None) -> None:
        """Stop redelivery for good; the reason goes into the server's advisory. Does not block."""
        if reason is not None and ("\r" in reason or "\n" in reason):
            raise ConfigError("the reason of term() must be one line")
        self._settle(b"+TERM" if not reason else b"+TERM " + reason.encode())

    def in_progress(self) -> None:
        """Restart the consumer's ``ack_wait`` for this message. Does not block."""
        if not self._flags & _DONE and not (self._context is not None and self._context._ack_none):
            self._answer(b"+WPI")

    def ack_sync(self, timeout: Seconds | None = None) -> None:
        """Acknowledge and wait until the server has confirmed it: then it is never redelivered.

        Blocks up to ``timeout`` seconds (default: the connection's) and sends again after a
        reconnect. Raises TimeoutError; NoRespondersError when the consumer is gone.
        """
        if self._flags & _DONE or (self._context is not None and self._context._ack_none):
            return
        nc = self._owner
        if nc is None or self.reply is None:
            raise ConfigError("the message is not bound to a connection")
        confirm(nc, self.reply, nc._seconds(timeout))
        self._flags |= _DONE


def confirm(nc: Any, reply: str, seconds: float) -> None:
    """Double ack: send until the server answers. Repeating is safe."""
    deadline = Deadline(seconds)
    # A server that just restarted may not serve the consumer yet; one that is gone never will.
    patience = Deadline(min(2.0, seconds))
    while True:
        try:
            nc.request(reply, b"+ACK", timeout=deadline.remaining())
            return
        except DisconnectedError:
            nc._pause(deadline.within(0.05))
        except NoRespondersError:
            if patience.expired:
                raise
            nc._pause(deadline.within(0.1))
        if deadline.expired:
            raise TimeoutError(f"no confirmation within {seconds:g} s", operation="ack_sync")


class MsgBatch(_CoreBatch, Sequence[JetStreamMsg]):
    """A sequence of :class:`JetStreamMsg` that owns its bytes; what ``fetch`` returns.

    Messages become objects only when they are looked at; every iteration builds new ones.
    ``to_arrow`` and ``__arrow_c_array__`` hand all of them over as columns without building any.
    """

    error: Exception | None = None
    """Why the pull ended early, or None."""
    _ack_none: bool = False

    def ack(self) -> None:
        """Acknowledge every message in one write. Does not wait for the server."""
        self._settle(b"+ACK")

    def nak(self, delay: Seconds | None = None) -> None:
        """Ask for redelivery of every message. Does not wait for the server."""
        self._settle(_nak(delay))

    def in_progress(self) -> None:
        """Restart ``ack_wait`` for every message. Does not wait for the server."""
        self._settle(b"+WPI")

    def _settle(self, payload: bytes) -> None:
        if not self._ack_none:
            self.answer_all(payload)

    def ack_sync(self, timeout: Seconds | None = None) -> None:
        """Acknowledge every message and wait until the server has confirmed all of them.

        Blocks up to ``timeout`` seconds for the whole batch. Raises like ``JetStreamMsg.ack_sync``.
        """
        if self._ack_none or not len(self):
            return
        nc = self[0]._owner
        deadline = Deadline(nc._seconds(timeout))
        for index in self._unconfirmed(nc, deadline):
            self[index].ack_sync(deadline.remaining())

    def _unconfirmed(self, nc: Any, deadline: Deadline) -> list[int]:
        """Ask for all confirmations at once; returns the messages left without one, because the
        link broke or the consumer was not served for a moment."""
        waiting = set(range(len(self)))
        token, reply, mailbox = nc._requests.open("$JS.ACK")
        try:
            self.answer_all(b"+ACK", f"{reply}-".encode())
            while waiting and (msg := mailbox.get(deadline.remaining())) is not None:
                if not msg.status:
                    waiting.discard(int(msg.subject.rpartition("-")[2]))
                elif msg.status == 503:
                    break
        finally:
            nc._requests.end(token)
        return sorted(waiting)

    def to_arrow(
        self, columns: Sequence[str] | None = None, *, text_headers: bool = False
    ) -> pyarrow.RecordBatch:
        """Return a pyarrow RecordBatch; needs the ``arrow`` extra. Builds no message objects.

        ``columns`` chooses and orders them (default: all). Header values are binary, or with
        ``text_headers`` strings in which bytes that are not UTF-8 became U+FFFD. Raises
        ConfigError for an unknown column and when pyarrow is missing.
        """
        try:
            import pyarrow
        except ImportError:
            raise ConfigError('to_arrow() needs pyarrow: pip install "jetsync[arrow]"') from None
        schema, array = self.arrow_capsules(columns, text_headers)
        return pyarrow.record_batch(_Capsules(schema, array))

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, item: int, /) -> JetStreamMsg: ...
        @overload
        def __getitem__(self, item: slice, /) -> list[JetStreamMsg]: ...
        def __getitem__(
            self, item: int | slice, /
        ) -> JetStreamMsg | list[JetStreamMsg]: ...
        def __iter__(self) -> Iterator[JetStreamMsg]: ...


class _Capsules:
    """What pyarrow takes: an object with the Arrow C data interface."""

    def __init__(self, schema: object, array: object) -> None:
        self._pair = schema, array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._pair
