"""DirectBatch: what batched direct get brings (ADR-31), as messages or as Arrow columns.

A server writes where a stored message comes from behind the headers it was published with. The
batch keeps the messages as they came; those lines are read, and taken off, when a message is looked
at or when columns are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jetsync._core import message as _core
from jetsync._core.arrow import COLUMNS
from jetsync.client import Msg
from jetsync.errors import ConfigError, NotJetStreamMessageError, ProtocolError
from jetsync.jetstream._wire import parse_time_ns
from jetsync.jetstream.message import JetStreamMsg, MsgBatch, MsgMetadata

if TYPE_CHECKING:
    import pyarrow

__all__ = ["DirectBatch", "DirectMsg", "Origin", "read_origin"]

# The server's lines are the last ones, so nothing that was published can pass for them.
_TAIL = re.compile(
    rb"Nats-Stream: ([^\r\n]*)\r\nNats-Subject: ([^\r\n]*)\r\nNats-Sequence: (\d+)\r\n"
    rb"Nats-Time-Stamp: ([^\r\n]*)\r\n"
    rb"(?:Nats-Num-Pending: (\d+)\r\nNats-Last-Sequence: \d+\r\n(?:Nats-UpTo-Sequence: \d+\r\n)?)?"
    rb"\r\n\Z"
)
_NO_HEADERS = b"NATS/1.0\r\n"


class Origin(NamedTuple):
    """Where a stored message comes from, and the headers it was published with."""

    stream: str
    subject: str
    seq: int
    time: str
    num_pending: int
    raw_headers: bytes


def read_origin(raw_headers: bytes) -> Origin | None:
    """Read the lines a server added to a stored message; None if there are none. Never raises."""
    found = _TAIL.search(raw_headers)
    if found is None:
        return None
    stream, subject, seq, time, pending = found.groups()
    kept = raw_headers[: found.start()]
    return Origin(
        stream.decode("utf-8", "surrogateescape"),
        subject.decode("utf-8", "surrogateescape"),
        int(seq),
        time.decode("ascii", "replace"),
        int(pending or 0),
        b"" if kept == _NO_HEADERS else kept + b"\r\n",
    )


class _Unacknowledged:
    """Stands for a consumer whose messages cannot be acknowledged."""

    _ack_none = True


_NOBODY = _Unacknowledged()


class DirectMsg(JetStreamMsg):
    """A stored message that no consumer delivered: read with ``get_msgs`` or ``get_last_msgs``.

    ``metadata`` has stream, sequence, time and ``num_pending``; what only a consumer knows is empty
    or 0. It has no ``reply``, and acknowledgements of it are ignored. Thread-safe.
    """

    __slots__ = ("_metadata",)

    _metadata: MsgMetadata | None

    @classmethod
    def _of(cls, msg: Msg) -> DirectMsg:
        origin = read_origin(msg.raw_headers)
        if origin is None:
            raise ProtocolError("a direct get was answered without Nats-Stream and Nats-Sequence")
        metadata = MsgMetadata(
            stream=origin.stream,
            consumer="",
            num_delivered=0,
            stream_seq=origin.seq,
            consumer_seq=0,
            timestamp_ns=parse_time_ns(origin.time) or 0,
            num_pending=origin.num_pending,
        )
        made = _rebuild(origin.subject, msg.data, origin.raw_headers, metadata)
        made._owner = msg._owner
        return made

    @property
    def metadata(self) -> MsgMetadata:
        """Stream, sequence and time."""
        if self._metadata is None:
            raise NotJetStreamMessageError("the message was not read from a stream")
        return self._metadata

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.subject, self.data, self.raw_headers, self._metadata)


def _rebuild(
    subject: str, data: bytes, raw_headers: bytes, metadata: MsgMetadata | None
) -> DirectMsg:
    made: DirectMsg = _core._rebuild(  # type: ignore[attr-defined]
        DirectMsg, subject, data, b"", raw_headers, 0
    )
    made._metadata = metadata
    made._context = _NOBODY
    return made


class DirectBatch(MsgBatch):
    """A sequence of :class:`DirectMsg` that owns its bytes; what ``Stream.get_msgs`` returns.

    Like every ``MsgBatch``: messages become objects only when they are looked at, ``to_arrow`` and
    ``__arrow_c_array__`` build none (both need pyarrow here). The columns ``consumer_seq``,
    ``num_delivered`` and ``reply`` are null. Acknowledging does nothing.
    """

    _ack_none = True

    num_pending: int = 0
    """How many more messages there were to read behind the last one; 0: it was the end."""
    up_to_seq: int | None = None
    """The sequence up to which ``get_last_msgs`` looked; None for ``get_msgs``."""

    if not TYPE_CHECKING:

        def __getitem__(self, item):
            if isinstance(item, slice):
                return [self[i] for i in range(*item.indices(len(self)))]
            return DirectMsg._of(super().__getitem__(item))

        def __iter__(self):
            return map(DirectMsg._of, super().__iter__())

    @property
    def first_seq(self) -> int | None:
        """Stream sequence of the first message, or None for an empty batch."""
        return self[0].metadata.stream_seq if len(self) else None

    @property
    def last_seq(self) -> int | None:
        """Stream sequence of the last message, or None for an empty batch."""
        return self[-1].metadata.stream_seq if len(self) else None

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        capsules: tuple[object, object] = self.to_arrow().__arrow_c_array__(requested_schema)
        return capsules

    def arrow_capsules(
        self, columns: Sequence[str] | None = None, text_headers: bool = False
    ) -> tuple[object, object]:
        """See ``MsgBatch.arrow_capsules``."""
        capsules: tuple[object, object] = self.to_arrow(
            columns, text_headers=text_headers
        ).__arrow_c_array__()
        return capsules

    def to_arrow(
        self, columns: Sequence[str] | None = None, *, text_headers: bool = False
    ) -> pyarrow.RecordBatch:
        """See ``MsgBatch.to_arrow``."""
        try:
            import pyarrow
        except ImportError:
            raise ConfigError('to_arrow() needs pyarrow: pip install "jetsync[arrow]"') from None
        from jetsync.jetstream.streams.direct_columns import make_columns

        names = list(COLUMNS if columns is None else columns)
        for name in names:
            if name not in COLUMNS:
                raise ConfigError(f"unknown column {name!r}; there are {', '.join(COLUMNS)}")
            if names.count(name) > 1:
                raise ConfigError(f"column {name!r} is asked for twice")
        schema, array = super().arrow_capsules(["data", "headers"], text_headers)
        received = pyarrow.record_batch(_Capsules(schema, array))
        return make_columns(received, names, text_headers)

    def __reversed__(self) -> Iterator[JetStreamMsg]:
        return (self[i] for i in range(len(self) - 1, -1, -1))


class _Capsules:
    """What pyarrow takes: an object with the Arrow C data interface."""

    def __init__(self, schema: object, array: object) -> None:
        self._pair = schema, array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._pair
