"""Storing the bytes of an object as chunks, in order, with a bounded number of them in memory.

Chunks are sent without waiting for each confirmation. After a lost connection some may be stored in
another order than they were sent in, so the sequences of the confirmations are compared: what lies
at the wrong place is removed and sent again, from memory.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from jetsync._deadline import Deadline
from jetsync.errors import ConfigError, Error
from jetsync.jetstream import PubAckFuture
from jetsync.objectstore.place import Place

__all__ = ["STALL", "Upload", "chunks_of"]

STALL = 30.0
"""Without a time budget: so long one chunk may take to be stored or to arrive."""
_IN_MEMORY = 4 * 1024 * 1024
_SETTLING = 5.0


def chunks_of(source: Any, size: int) -> Iterator[bytes]:
    """Cut bytes, a binary file or an iterable of bytes into chunks. Raises ConfigError."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        view = memoryview(source).cast("B")
        for start in range(0, len(view), size):
            yield bytes(view[start : start + size])
        return
    read = getattr(source, "read", None)
    pieces = iter(lambda: _piece(read(size)), b"") if read is not None else map(_piece, source)
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        start = 0
        while len(waiting) - start >= size:
            yield bytes(memoryview(waiting)[start : start + size])
            start += size
        del waiting[:start]
    if waiting:
        yield bytes(waiting)


def _piece(data: object) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ConfigError(
            f"an object is made of bytes, the source gave {type(data).__name__}; open files in "
            "binary mode, without O_NONBLOCK"
        )
    return bytes(data)


class _Sent(NamedTuple):
    data: bytes
    future: PubAckFuture


class Upload:
    """The chunks of one content on their way. For one thread."""

    def __init__(self, place: Place, nuid: str, chunk_size: int, deadline: Deadline) -> None:
        self._place = place
        self._nuid = nuid
        self._subject = place.to_write(place.chunk_subject(nuid))
        self._deadline = deadline
        self._limit = max(2, min(256, _IN_MEMORY // chunk_size))
        self._window: deque[_Sent] = deque()
        self._last_seq = 0
        self._messages = 0
        self.size = 0
        self.chunks = 0
        self.content = hashlib.sha256()

    def run(self, chunks: Iterable[bytes]) -> None:
        """Store all chunks and wait until they are confirmed. Raises NotStoredError,
        PublishUnknownError, MaxPayloadError, and what the iterable raises."""
        for data in chunks:
            self.content.update(data)
            self.size += len(data)
            self.chunks += 1
            if len(self._window) >= self._limit:
                self._settle()
            self._window.append(self._send(data))
        while self._window:
            self._settle()

    def _send(self, data: bytes) -> _Sent:
        self._messages += 1
        future = self._place.js.publish_async(
            self._subject,
            data,
            msg_id=f"{self._nuid}.{self._messages}",
            # Longer than the call may take: what came of it is known before chunks are removed.
            timeout=self._deadline.within(STALL) + _SETTLING,
        )
        return _Sent(data, future)

    def _settle(self) -> None:
        """Wait for the oldest chunk; put right what does not lie behind the one before it."""
        seq = self._result(self._window[0])
        if seq > self._last_seq:
            self._last_seq = seq
            self._window.popleft()
            return
        misplaced = [(sent.data, self._result(sent)) for sent in self._window]
        for _, wrong in misplaced:
            self._place.stream.delete_msg(wrong, timeout=self._deadline.within(STALL))
        self._window.clear()
        for data, _ in misplaced:
            self._window.append(self._send(data))

    def _result(self, sent: _Sent) -> int:
        """The sequence that a chunk was stored under. Blocks."""
        return sent.future.result(self._deadline.within(STALL)).seq

    def undo(self) -> None:
        """Remove what was stored. Waits a little for what is under way, so that it is not stored
        afterwards."""
        limit = Deadline(_SETTLING)
        for sent in self._window:
            try:
                sent.future.exception(limit.remaining())
            except Error:
                break
        if self._messages:
            self._place.purge(self._nuid)
