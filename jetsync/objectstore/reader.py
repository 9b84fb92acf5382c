"""ObjectReader: the bytes of an object as a file, checked by size and digest."""

from __future__ import annotations

import hashlib
import io
import operator
import os

from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync.errors import (
    DisconnectedError,
    Error,
    MessageNotFoundError,
    ObjectIntegrityError,
    ObjectNotFoundError,
    ObjectReplacedError,
    StreamNotFoundError,
    TimeoutError,
)
from jetsync.jetstream import OrderedConsumer
from jetsync.objectstore.backing import ObjectBacking, gone
from jetsync.objectstore.info import ObjectInfo, digest_of
from jetsync.objectstore.ranges import ChunkMap

__all__ = ["ObjectReader"]

_IN_MEMORY = 8 * 1024 * 1024
_ASK_AFTER = 0.1
"""Seconds without a chunk, beyond a round trip, after which the leader is asked whether the chunks
are there."""
_ASK_AGAIN = 1.0
"""The longest time between two such questions."""
_LEAST = 0.2
"""Seconds for a request inside a call whose own time may be over."""


class ObjectReader(io.BufferedIOBase):
    """The bytes of an object as a binary file. Made by ``ObjectStore.get``.

    Read from the start, chunks are read ahead, some megabytes at most, and the last bytes are given
    only when size and SHA-256 digest of all are right. Else ObjectIntegrityError is raised, also
    when chunks are missing; its subclass ObjectReplacedError when the object was replaced or
    deleted meanwhile. Lost connections, restarted servers and servers that are behind are survived.
    An object that was stored without a digest is checked by its size.

    :meth:`seek` goes anywhere. What is read behind a jump is fetched chunk by chunk, each checked
    by its sequence and size; the digest of all cannot be checked then.

    For one thread at a time. As a context manager it is closed at the end, which also ends the
    reading from the server early.
    """

    def __init__(
        self,
        backing: ObjectBacking,
        info: ObjectInfo,
        deadline: Deadline,
        wait: float,
        opening: Deadline,
        *,
        from_leader: bool = False,
    ) -> None:
        super().__init__()
        self.info = info
        """The description of the object when it was opened."""
        self._backing = backing
        self._deadline = deadline
        self._wait = wait
        self._content = hashlib.sha256()
        self._got = 0  # bytes that came, read from the start on
        self._chunks = 0
        self._seq = 0  # of the last chunk that came
        self._unread = memoryview(b"")
        self._at = 0  # where the next byte is read from
        self._ordered: OrderedConsumer | None = None
        self._from_leader = from_leader
        self._map: ChunkMap | None = None
        self._failure: ObjectIntegrityError | None = None
        if not info.size:
            self._verify()
        elif not from_leader:
            self._open(opening)

    def _open(self, deadline: Deadline) -> None:
        info = self.info
        subject = self._backing.chunk_subject(info.nuid)
        self._ordered = ordered = self._backing.js.ordered_consumer(
            self._backing.stream.name, filter_subjects=subject, timeout=deadline.remaining()
        )
        # A server that is behind has none or too few: the leader decides.
        if not ordered.cached_info.num_pending and not self._leader_has_more(deadline):
            ordered.close()
            raise self._failed("none of its chunks is there")
        average = max(1, info.size // max(1, info.chunks))
        self._messages = ordered.messages(max_messages=max(2, min(256, _IN_MEMORY // average)))

    # -- reading -----------------------------------------------------------------------------------

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read from anywhere: yes."""
        return True

    def tell(self) -> int:
        """Where the next byte is read from."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position of the next read: ``offset`` bytes from the start, from the present
        position (``whence`` 1) or from the end (2). Does not block; returns the new position.
        Raises ValueError for a position before the start, another ``whence``, and after
        :meth:`close`, TypeError for what is no integer.
        """
        self._check_open()
        offset = operator.index(offset)
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.info.size}.get(whence)
        if base is None:
            raise ValueError(f"whence must be 0, 1 or 2, not {whence!r}")
        if base + offset < 0:
            raise ValueError("a position before the start of the object")
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """Return ``size`` bytes, fewer at the end only; by default all that are left.

        Waits for each chunk up to the ``read_timeout`` of ``get``; TimeoutError loses nothing.
        Raises ObjectIntegrityError, ObjectStoreNotFoundError when the bucket is gone,
        ConnectionClosedError, and ValueError after :meth:`close`.
        """
        self._check_open()
        if size is None or size < 0:
            size = max(0, self.info.size - self._at)
        parts: list[memoryview] = []
        start = self._at
        try:
            while size > 0 and len(piece := self._next(size)):
                parts.append(piece)
                size -= len(piece)
        except BaseException:
            self._give_back(start, parts)
            raise
        return b"".join(parts)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the reader is closed")

    def _give_back(self, start: int, parts: list[memoryview]) -> None:
        """Keep the bytes of an interrupted call for the next one."""
        if parts and self._at == self._handed:
            self._unread = memoryview(b"".join([*parts, self._unread]))
        self._at = start

    def read1(self, size: int = -1, /) -> bytes:
        """Return the rest of a chunk, at most ``size`` bytes. Blocks for one chunk and raises as
        :meth:`read` does: TimeoutError, ObjectIntegrityError, ObjectStoreNotFoundError.
        """
        self._check_open()
        return bytes(self._next(size)) if size else b""

    def peek(self, size: int = 0, /) -> bytes:
        """Return the rest of a chunk without taking it; ``size`` is a hint that is not used.

        Blocks for one chunk and raises as :meth:`read` does: TimeoutError, ObjectIntegrityError,
        ObjectStoreNotFoundError.
        """
        at = self._at
        piece = bytes(self._next(-1))
        self._give_back(at, [memoryview(piece)])
        return piece

    @property
    def _handed(self) -> int:
        """Where the bytes begin that came from the start on and were not handed out."""
        return self._got - len(self._unread)

    def _next(self, size: int) -> memoryview:
        """Take the next piece, at most ``size`` bytes (-1: no limit); empty at the end."""
        self._check_open()
        if self._at >= self.info.size and self._failure is None:
            return memoryview(b"")
        if self._at != self._handed:
            return self._jump(size)
        while not len(self._unread):
            if self._failure is not None:
                raise self._failure
            self._take()
        piece = self._unread if size < 0 else self._unread[:size]
        self._unread = self._unread[len(piece) :]
        self._at += len(piece)
        return piece

    def _jump(self, size: int) -> memoryview:
        """The same after a :meth:`seek`."""
        if self._map is None:
            self._map = ChunkMap(self._backing, self.info)
        try:
            deadline = Deadline(self._deadline.within(self._wait))
            piece = self._map.read(self._at, size, deadline)
        except StreamNotFoundError as error:
            raise gone(self._backing.bucket) from error
        except MessageNotFoundError as error:
            raise self._failed(str(error)) from error
        self._at += len(piece)
        return piece

    # -- from the start on -------------------------------------------------------------------------

    def _take(self) -> None:
        """Take the next chunk."""
        try:
            data, self._seq = self._take_leaders() if self._from_leader else self._take_ordered()
        except StreamNotFoundError as error:
            raise gone(self._backing.bucket) from error
        self._content.update(data)
        self._got += len(data)
        self._chunks += 1
        if self._got >= self.info.size:
            self._stop()
            self._verify()
        self._unread = memoryview(data)

    def _take_ordered(self) -> tuple[bytes, int]:
        deadline = Deadline(self._deadline.within(self._wait))
        patience = _ASK_AFTER + self._backing.api.port.rtt
        while True:
            try:
                msg = self._messages.next(timeout=deadline.within(patience))
                return msg.data, msg.metadata.stream_seq
            except TimeoutError:
                if deadline.expired:
                    raise
            if not self._leader_has_more(deadline):
                self._stop()
                raise self._failed(f"chunks are missing behind byte {self._got}")
            patience = max(patience, min(2 * patience, _ASK_AGAIN))

    def _leader_has_more(self, deadline: Deadline) -> bool:
        """Whether the leader has chunks behind the last one that came; True if it cannot tell now.

        A server that is behind the leader delivers nothing for a while, and neither does a slow
        link: then it is too early to say that something is missing.
        """
        info, backing = self.info, self._backing
        limit = Deadline(max(_LEAST, deadline.within(self._wait)))
        try:
            count = backing.chunk_counts(limit, info.nuid).get(info.nuid, 0)
            if count > self._chunks:
                return True
            if not count:
                return False
            backing.stream.get_msg(
                self._seq + 1,
                next_by_subject=backing.chunk_subject(info.nuid),
                timeout=limit.remaining(),
            )
        except MessageNotFoundError:
            return False
        except (TimeoutError, DisconnectedError):
            pass
        return True

    def _take_leaders(self) -> tuple[bytes, int]:
        try:
            msg = self._backing.stream.get_msg(
                self._seq + 1,
                next_by_subject=self._backing.chunk_subject(self.info.nuid),
                timeout=self._deadline.within(self._wait),
            )
        except MessageNotFoundError:
            raise self._failed(f"chunks are missing behind byte {self._got}") from None
        return msg.data, msg.seq

    # -- checking ----------------------------------------------------------------------------------

    def _verify(self) -> None:
        if self._got != self.info.size:
            raise self._failed(f"it has {counted(self.info.size, 'byte')}, {self._got} came")
        expected = self.info.digest.rstrip("=")
        if expected and expected != digest_of(self._content.digest()).rstrip("="):
            raise self._failed("its digest does not match")

    def _failed(self, why: str) -> ObjectIntegrityError:
        """The error for bytes that are not those described. Reads the description again."""
        info, kind = self.info, ObjectIntegrityError
        what = "is damaged: do not use what was read, and put it again"
        try:
            now = self._backing.info(info.name, Deadline(max(_LEAST, self._deadline.within(2.0))))
            is_other = now.nuid != info.nuid
        except ObjectNotFoundError:
            is_other = True
        except Error:
            is_other = False
            what = "is damaged, or was replaced while it was read: do not use it, get it again"
        if is_other:
            kind = ObjectReplacedError
            what = "was replaced, renamed or deleted while it was read: get it again"
        self._failure = kind(
            f"object {info.name!r} of bucket {info.bucket!r} {what} ({why})",
            bucket=info.bucket,
            name=info.name,
        )
        return self._failure

    # -- ending ------------------------------------------------------------------------------------

    def _stop(self) -> None:
        ordered = self._ordered
        if ordered is not None:
            ordered.close()

    def close(self) -> None:
        """End reading. Does not wait for the server. Safe to repeat."""
        if not self.closed:
            self._stop()
        super().close()

    def __del__(self) -> None:
        # The base would close it, which takes locks that this thread may hold right now. The
        # stream of messages ends by itself and deletes its server consumer on another thread.
        pass

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"at {self._at} of {self.info.size}"
        return f"<ObjectReader {self.info.name!r} of {self.info.bucket!r}: {state}>"
