"""Storing the bytes of an object as chunks, in order, with a bounded number of them in memory.

Chunks are sent without waiting for each confirmation. After a lost connection some may be stored in
another order than they were sent in, so the sequences of the confirmations are compared: chunks out
of order are removed and sent again from memory.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pickle import PickleBuffer
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from jetsync._deadline import Deadline
from jetsync.errors import (
    ConfigError,
    NotStoredError,
    PermissionsError,
    PublishUnknownError,
    TimeoutError,
)
from jetsync.jetstream import PubAckFuture
from jetsync.objectstore.backing import ObjectBacking
from jetsync.objectstore.cleanup import remove_chunks
from jetsync.objectstore.names import new_nuid

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["STALL", "Source", "Upload", "pieces_of"]

STALL = 30.0
"""Seconds that one chunk may take to be stored or to arrive, when the call has no timeout."""
_IN_MEMORY = 8 * 1024 * 1024
"""Bytes of chunks that wait for their confirmation: a link of 10 ms holds 800 MB/s of them."""
_READ = 128 * 1024
_SETTLING = 5.0

Source = bytes | bytearray | memoryview | IO[bytes] | Iterable[bytes] | os.PathLike[str]
"""The sources of an object: bytes, a file opened in binary mode, an iterable of bytes, a
``Path``."""


def pieces_of(source: Any) -> Iterator[bytes | bytearray | memoryview]:
    """Iterate over the pieces of bytes, of a binary file, or of an iterable of bytes.

    Raises ConfigError at once for a source that is none of these, and later for a piece that is no
    bytes.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return iter((source,))
    if isinstance(source, str):
        raise ConfigError("put takes bytes: encode a text; put_file takes the path of a file")
    read = getattr(source, "read", None)
    if read is not None:
        return _checked(iter(lambda: read(_READ) or b"", b""))
    try:
        return _checked(iter(source))
    except TypeError:
        raise ConfigError(
            "put takes bytes, a file opened in binary mode, an iterable of bytes or a Path, not "
            f"{type(source).__name__}"
        ) from None


def _checked(pieces: Iterator[Any]) -> Iterator[bytes]:
    for piece in pieces:
        yield check_bytes(piece)


def check_bytes(piece: object) -> Any:
    """Return ``piece`` if it is bytes, else raise ConfigError."""
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        raise _no_bytes(piece)
    return piece


def _no_bytes(piece: object) -> ConfigError:
    return ConfigError(
        f"an object is made of bytes, the source gave {type(piece).__name__}; open files in "
        "binary mode, without O_NONBLOCK"
    )


def _bytes_of(data: Buffer) -> memoryview:
    """The bytes of any bytes-like object, in the order of its items. Raises ConfigError."""
    try:
        view = memoryview(data)
    except TypeError:
        raise _no_bytes(data) from None
    # memoryview.cast takes neither an empty array of several dimensions nor a foreign byte order.
    return PickleBuffer(view).raw() if view.c_contiguous else memoryview(view.tobytes())


class _Sent(NamedTuple):
    data: bytes
    future: PubAckFuture


class Upload:
    """The chunks of one content while they are stored. For one thread."""

    def __init__(
        self,
        backing: ObjectBacking,
        chunk_size: int,
        deadline: Deadline,
        on_progress: Callable[[int], object] | None = None,
    ) -> None:
        self.nuid: str = new_nuid()
        self.size: int = 0
        self.chunks: int = 0
        self.content = hashlib.sha256()
        self._backing = backing
        self._subject = backing.to_write(backing.chunk_subject(self.nuid))
        self._deadline = deadline
        self._on_progress = on_progress
        self._chunk_size = chunk_size
        self.rest: bytearray = bytearray()
        """Bytes that do not fill a chunk yet."""
        self._limit = max(2, min(256, _IN_MEMORY // chunk_size))
        self._window: deque[_Sent] = deque()
        self._last_seq = 0
        self._messages = 0
        self._stored = 0
        self._began = 0.0

    def add(self, data: Buffer) -> int:
        """Take the next bytes of the object; returns how many. Blocks while the window is full.

        Raises ConfigError for what is not bytes-like, NotStoredError, PublishUnknownError,
        MaxPayloadError, TimeoutError.
        """
        view = _bytes_of(data)
        size, start = self._chunk_size, 0
        if self.rest:
            start = size - len(self.rest)
            self.rest += view[:start]
            if len(self.rest) == size:
                self._send_chunk(bytes(self.rest))
                self.rest.clear()
        while len(view) - start >= size:
            self._send_chunk(bytes(view[start : start + size]))
            start += size
        self.rest += view[start:]
        return len(view)

    def finish(self) -> None:
        """Send what is left and wait until everything is confirmed. Raises like :meth:`add`."""
        if self.rest:
            self._send_chunk(bytes(self.rest))
            self.rest.clear()
        while self._window:
            self._settle()
        limit = self._backing.stream.cached_info.config.max_age
        if limit and self._began and time.monotonic() - self._began > limit:
            raise NotStoredError(
                f"storing the object took longer than the {limit:g} s that bucket "
                f"{self._backing.bucket!r} keeps anything: its first chunks have aged out"
            )

    def undo(self) -> None:
        """Remove what was stored. Blocks for what is left of the call's time."""
        if self._messages:
            futures = [sent.future for sent in self._window]
            remove_chunks(self._backing, self.nuid, self._deadline, futures)

    def _send_chunk(self, data: bytes) -> None:
        self._began = self._began or time.monotonic()
        self.content.update(data)
        self.size += len(data)
        self.chunks += 1
        while len(self._window) >= self._limit:
            self._settle()
        self._window.append(self._send(data))

    def _send(self, data: bytes) -> _Sent:
        self._messages += 1
        future = self._backing.js.publish_async(
            self._subject,
            data,
            msg_id=f"{self.nuid}.{self._messages}",
            # Longer than the call may take, so that the outcome is known before chunks are removed.
            timeout=self._deadline.within(STALL) + _SETTLING,
        )
        return _Sent(data, future)

    def _settle(self) -> None:
        """Wait for the oldest chunk; store it again if it is not behind the one before it."""
        seq = self._result(self._window[0])
        if seq > self._last_seq:
            self._last_seq = seq
            self._stored += len(self._window.popleft().data)
            if self._on_progress is not None:
                self._on_progress(self._stored)
            return
        misplaced = [(sent.data, self._result(sent)) for sent in self._window]
        for _, wrong in misplaced:
            self._backing.stream.delete_msg(wrong, timeout=self._deadline.within(STALL))
        self._window.clear()
        for data, _ in misplaced:
            self._window.append(self._send(data))

    def _result(self, sent: _Sent) -> int:
        """The sequence that a chunk was stored under. Blocks."""
        try:
            return sent.future.result(self._deadline.within(STALL)).seq
        except PublishUnknownError as error:
            # The chunk may be stored, but the object is not: nothing leads to its chunks yet.
            text = f"the object is not stored, a chunk was not confirmed ({error.__cause__})"
            if isinstance(error.__cause__, PermissionsError):
                raise NotStoredError(text) from error
            raise TimeoutError(text, operation="put") from error
