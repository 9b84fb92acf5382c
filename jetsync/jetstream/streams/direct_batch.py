"""DirectBatch: the result of a batched direct get (ADR-31), as messages or as Arrow columns.

A server adds headers with stream, sequence and time behind the headers of a stored message. The
batch keeps the messages as they came; those lines are read and removed when a message object or a
column is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jetsync._core.batch import last_of
from jetsync._core.message import _rebuild as _rebuild_message
from jetsync._core.stored import parse_stored
from jetsync.errors import NotJetStreamMessageError
from jetsync.jetstream.message import JetStreamMsg, MsgBatch, MsgMetadata

__all__ = ["UNACKNOWLEDGED", "DirectBatch", "DirectMsg"]


class _Unacknowledged:
    """A consumer whose messages cannot be acknowledged."""

    ack_none = True


UNACKNOWLEDGED = _Unacknowledged()


class DirectMsg(JetStreamMsg):
    """A stored message that no consumer delivered: read with ``get_msgs`` or ``get_last_msgs``.

    ``metadata`` has stream, sequence, time and ``num_pending``; what only a consumer knows is empty
    or 0. It has no ``reply``, and acknowledgements of it are ignored. Thread-safe.
    """

    __slots__ = ("_lines",)

    _lines: bytes  # the lines that the server added

    @property
    def metadata(self) -> MsgMetadata:
        """Stream, sequence and time."""
        stored = parse_stored(self._lines)
        if stored is None:
            raise NotJetStreamMessageError("the message was not read from a stream")
        stream, _, seq, timestamp_ns, num_pending, _ = stored
        return MsgMetadata(stream, "", 0, seq, 0, timestamp_ns, num_pending)

    @property
    def seq(self) -> int:
        """Its sequence in the stream, ``metadata.stream_seq``. Raises NotJetStreamMessageError."""
        return self.metadata.stream_seq

    def _restore(self, lines: bytes) -> None:
        self._lines = lines
        self._context = UNACKNOWLEDGED

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.subject, self.data, self.raw_headers, self._lines)


def _rebuild(subject: str, data: bytes, raw_headers: bytes, lines: bytes) -> DirectMsg:
    made = _rebuild_message(DirectMsg, subject, data, b"", raw_headers, 0)
    made._restore(lines)
    return made


class DirectBatch(MsgBatch):
    """A sequence of :class:`DirectMsg` that owns its bytes; what ``Stream.get_msgs`` returns.

    Like every ``MsgBatch``: messages become objects only on access, ``to_arrow`` and
    ``__arrow_c_array__`` build none. The columns ``consumer_seq``, ``num_delivered`` and ``reply``
    are null. Acknowledging does nothing.
    """

    _ack_none = True

    num_pending: int = 0
    """How many more messages there were to read behind the last one; 0: it was the end."""
    up_to_seq: int | None = None
    """The sequence up to which ``get_last_msgs`` read; None for ``get_msgs``."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[DirectMsg]: ...

    @property
    def first_seq(self) -> int | None:
        """Stream sequence of the first message, or None for an empty batch."""
        return self[0].metadata.stream_seq if len(self) else None

    @property
    def last_seq(self) -> int | None:
        """Stream sequence of the last message, or None for an empty batch."""
        last: DirectMsg | None = last_of(self)
        return None if last is None else last.metadata.stream_seq
