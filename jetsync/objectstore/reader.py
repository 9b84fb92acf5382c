"""ObjectReader: the bytes of an object as a file, checked by size and digest."""

from __future__ import annotations

import hashlib
import io

from jetsync._api_errors import MessageNotFoundError, StreamNotFoundError
from jetsync._deadline import Deadline
from jetsync.errors import DisconnectedError, ObjectIntegrityError, TimeoutError
from jetsync.jetstream import OrderedConsumer
from jetsync.objectstore.info import ObjectInfo, digest_of
from jetsync.objectstore.place import Place, gone

__all__ = ["ObjectReader"]

_IN_MEMORY = 8 * 1024 * 1024
_LOOK_AFTER = 0.5
"""Seconds without a chunk after which the server is asked whether there is another one."""
_LEAST = 0.2
"""Seconds for a question in the middle of a call that may have none left."""


class ObjectReader(io.BufferedIOBase):
    """The bytes of an object as a binary file. Made by ``ObjectStore.get``.

    Chunks are read ahead, some megabytes at most. The last bytes are given only when size and
    SHA-256 digest of all are right; else ObjectIntegrityError is raised, also when chunks are
    missing, or were removed because the object was replaced or deleted meanwhile. Lost connections
    and restarted servers are survived. An object that was stored without a digest is checked by its
    size.

    For one thread at a time. As a context manager it is closed at the end, which also ends the
    reading from the server early.
    """

    def __init__(
        self, place: Place, info: ObjectInfo, deadline: Deadline, wait: float, opening: Deadline
    ) -> None:
        super().__init__()
        self.info = info
        """What is read, as it was when it was opened."""
        self._place = place
        self._deadline = deadline
        self._wait = wait
        self._content = hashlib.sha256()
        self._got = 0
        self._hand = memoryview(b"")
        self._ordered: OrderedConsumer | None = None
        self._failure: ObjectIntegrityError | None = None
        if info.size:
            self._open(opening)
        else:
            self._verify()

    def _open(self, deadline: Deadline) -> None:
        self._ordered = ordered = self._place.js.ordered_consumer(
            self._place.stream.name,
            filter_subjects=self._place.chunk_subject(self.info.nuid),
            timeout=deadline.remaining(),
        )
        if not ordered.cached_info.num_pending:
            ordered.close()
            raise self._failed("none of its chunks are there")
        average = max(1, self.info.size // max(1, self.info.chunks))
        self._messages = ordered.messages(
            max_messages=max(2, min(256, _IN_MEMORY // average)),
        )

    # -- reading -----------------------------------------------------------------------------------

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Return ``size`` bytes, fewer at the end only; by default all that are left.

        Waits for each chunk up to the ``read_timeout`` of ``get``; TimeoutError loses nothing.
        Raises ObjectIntegrityError, and ObjectStoreNotFoundError when the bucket is gone.
        """
        if size is None or size < 0:
            size = self.info.size
        parts: list[memoryview] = []
        try:
            while size > 0 and self._fill():
                part = self._hand[:size]
                parts.append(part)
                self._hand = self._hand[len(part) :]
                size -= len(part)
        except BaseException:
            self._hand = memoryview(b"".join([*parts, self._hand]))
            raise
        return b"".join(parts)

    def read1(self, size: int = -1, /) -> bytes:
        """Return what is there: the rest of a chunk, at most ``size`` bytes. Blocks for one."""
        if not size or not self._fill():
            return b""
        part = self._hand if size < 0 else self._hand[:size]
        self._hand = self._hand[len(part) :]
        return bytes(part)

    def peek(self, size: int = 0, /) -> bytes:
        """Return the rest of a chunk without taking it. Blocks for one."""
        return bytes(self._hand) if self._fill() else b""

    def _fill(self) -> bool:
        """Make sure that there are bytes in hand; False at the end of the object."""
        if self.closed:
            raise ValueError("the reader is closed")
        while not len(self._hand):
            if self._failure is not None:
                raise self._failure
            if self._got >= self.info.size:
                return False
            self._take()
        return True

    def _take(self) -> None:
        """Take the next chunk."""
        deadline = Deadline(self._deadline.within(self._wait))
        while True:
            try:
                msg = self._messages.next(timeout=deadline.within(_LOOK_AFTER))
                break
            except TimeoutError:
                if deadline.expired:
                    raise
                self._look()
            except StreamNotFoundError as error:
                raise gone(self._place.bucket) from error
        self._content.update(msg.data)
        self._got += len(msg.data)
        if self._got >= self.info.size:
            self._stop()
            self._verify()
        self._hand = memoryview(msg.data)

    def _look(self) -> None:
        """Nothing came for a while: find out whether there is anything to come."""
        assert self._ordered is not None
        try:
            self._place.stream.get_msg(
                self._ordered.last_seq + 1,
                next_by_subject=self._place.chunk_subject(self.info.nuid),
                timeout=max(_LEAST, self._deadline.within(self._wait)),
            )
        except MessageNotFoundError:
            self._stop()
            raise self._failed(f"chunks are missing behind byte {self._got}") from None
        except StreamNotFoundError as error:
            raise gone(self._place.bucket) from error
        except (TimeoutError, DisconnectedError):
            return  # nobody can tell now

    # -- checking ----------------------------------------------------------------------------------

    def _verify(self) -> None:
        if self._got != self.info.size:
            raise self._failed(f"it has {self.info.size} bytes, {self._got} came")
        told = self.info.digest.rstrip("=")
        if told and told != digest_of(self._content).rstrip("="):
            raise self._failed("its digest is another one")

    def _failed(self, why: str) -> ObjectIntegrityError:
        info = self.info
        self._failure = ObjectIntegrityError(
            f"object {info.name!r} of bucket {info.bucket!r} is damaged or was replaced while it "
            f"was read ({why}); do not use it, get it again",
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
