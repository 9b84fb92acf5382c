"""ObjectWriter: an object that is written like a file."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync.errors import NotStoredError
from jetsync.objectstore.backing import ObjectBacking
from jetsync.objectstore.found import Found
from jetsync.objectstore.info import ObjectInfo, ObjectMeta, digest_of
from jetsync.objectstore.upload import STALL, Upload

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

__all__ = ["ObjectWriter", "write_all"]


class ObjectWriter(io.BufferedIOBase):
    """A binary file whose bytes become an object. Made by ``ObjectStore.open(name, "wb")``.

    Chunks are stored as they fill up. The object becomes visible when the writer is closed, in
    place of the one of this name if there is one. Leaving a ``with`` block by an exception
    abandons it: nothing changes, and the chunks are removed. So does :meth:`abandon`.

    For one thread at a time. ``timeout`` of ``open`` is for all of it, from the opening to the
    closing. Raises what ``ObjectStore.put`` raises.
    """

    def __init__(
        self,
        backing: ObjectBacking,
        meta: ObjectMeta,
        deadline: Deadline,
        on_progress: Callable[[int], object] | None = None,
    ) -> None:
        super().__init__()
        self._backing = backing
        self._meta = meta
        self._deadline = deadline
        # Every check that is possible comes before the upload.
        opening = Deadline(deadline.within(STALL))
        backing.check_double(opening)
        self._found = backing.find(meta.name, opening)
        self._upload = Upload(backing, meta.chunk_size, deadline, on_progress)
        self._info: ObjectInfo | None = None

    @property
    def info(self) -> ObjectInfo:
        """The description of the stored object. Raises ValueError before the writer is closed."""
        if self._info is None:
            raise ValueError("the object is not stored: close the writer first")
        return self._info

    def writable(self) -> bool:
        """Whether it can be written: yes."""
        return True

    def tell(self) -> int:
        """How many bytes were written."""
        return self._upload.size + len(self._upload.rest)

    def write(self, data: Buffer, /) -> int:
        """Take ``data``, any bytes-like object; returns how many bytes. Blocks while 8 MiB wait for
        their confirmation, 30 seconds for each chunk at most.

        Raises NotStoredError (the bucket is full or sealed, say), TimeoutError, MaxPayloadError,
        ConfigError for what is not bytes, ConnectionClosedError, and ValueError after
        :meth:`close`.
        """
        if self.closed:
            raise ValueError("the writer is closed")
        return self._upload.add(data)

    def close(self) -> None:
        """Store what is left and make the object visible. Safe to repeat. Blocks until that is
        confirmed, 30 seconds for each chunk at most, or for the ``timeout`` of ``open``.

        Raises NotStoredError, TimeoutError, PublishUnknownError, MaxPayloadError,
        ObjectStoreNotFoundError, ConnectionClosedError. After an error nothing is changed and the
        chunks are removed; only after PublishUnknownError, when it is unknown whether the object is
        stored, they stay.
        """
        if self.closed:
            return
        try:
            self._finish()
        finally:
            super().close()

    def abandon(self) -> None:
        """Forget the object and remove its chunks. Does nothing when the writer is closed.

        Blocks until they are removed, for what is left of the ``timeout`` of ``open``, and at most
        5 seconds; what cannot be removed by then is removed later. Raises nothing for that.
        """
        if not self.closed:
            super().close()
            self._upload.undo()

    def _finish(self) -> None:
        upload, meta, backing = self._upload, self._meta, self._backing
        may_be_visible = False
        try:
            upload.finish()
            info = ObjectInfo(
                **{field.name: getattr(meta, field.name) for field in dataclasses.fields(meta)},
                bucket=backing.bucket,
                nuid=upload.nuid,
                size=upload.size,
                chunks=upload.chunks,
                digest=digest_of(upload.content.digest()),
            )

            def show(_: Found | None) -> ObjectInfo:
                nonlocal may_be_visible
                may_be_visible = True
                return info

            found, self._info = backing.replace_found(
                meta.name, self._found, show, Deadline(self._deadline.within(STALL))
            )
        except BaseException as error:
            # The last message may be stored, and the chunks may have readers: they stay.
            if not may_be_visible or isinstance(error, NotStoredError):
                upload.undo()
            raise
        backing.remove_chunks_of(found, self._deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        # The base class would close the writer, which would store half an object.
        pass

    def __repr__(self) -> str:
        state = "closed" if self.closed else counted(self.tell(), "byte")
        return f"<ObjectWriter {self._meta.name!r} in {self._backing.bucket!r}: {state}>"


def write_all(writer: ObjectWriter, pieces: Any) -> ObjectInfo:
    """Write all pieces and close the writer; returns what was stored. Blocks."""
    with writer:
        for piece in pieces:
            writer.write(piece)
    return writer.info
