"""ObjectStore: a handle on one bucket of objects."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, overload

from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._handles import Handle
from jetsync._signatures import spells_out
from jetsync.errors import (
    ConfigError,
    ObjectLinkError,
    StreamNotFoundError,
)
from jetsync.objectstore.backing import gone
from jetsync.objectstore.found import Found
from jetsync.objectstore.info import CHUNK_SIZE, ObjectInfo, ObjectLink, ObjectMeta
from jetsync.objectstore.listing import PrunedChunks, prune
from jetsync.objectstore.moves import rename, taken
from jetsync.objectstore.names import check_bucket, check_name, new_nuid
from jetsync.objectstore.reader import ObjectReader
from jetsync.objectstore.reading import Reading
from jetsync.objectstore.status import ObjectStoreStatus
from jetsync.objectstore.upload import Source, pieces_of
from jetsync.objectstore.writer import ObjectWriter, write_all

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ObjectStore"]

_AN_HOUR = 3600.0


class MetaFields(TypedDict, total=False):
    """The fields that ``ObjectStore.update_meta`` can change."""

    description: str | None
    headers: Mapping[str, list[str]]
    metadata: Mapping[str, str]


class ObjectStore(Handle, Reading):
    """A bucket of objects of any size (ADR-20). Made by the object store calls of ``JetStream``.

    Thread-safe; every call blocks up to ``timeout`` seconds (default: the JetStream object's, where
    nothing else is said) and raises TimeoutError, ObjectStoreNotFoundError when the bucket is gone,
    ConfigError for invalid arguments before anything is sent, ObjectMetaError for a description of
    another program that cannot be read. The leader is asked about objects, so every client sees
    what was put before. Names are any text.
    """

    # -- putting -----------------------------------------------------------------------------------

    def put(
        self,
        name_or_meta: str | ObjectMeta,
        data: Source,
        *,
        timeout: Seconds | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> ObjectInfo:
        """Store an object, in place of the one of this name if there is one. ``name_or_meta`` is
        its name, or an ObjectMeta with a description, headers or another size of chunks.

        It becomes visible when all of it is stored, and then the chunks of the old one are removed.
        A put that fails or is interrupted leaves everything as it was and removes its chunks. A few
        megabytes are in memory at a time. Of several puts of one name the last one stays, whole.
        ``on_progress`` is called with the number of bytes that are stored so far; what it raises
        ends the put.

        Blocks up to ``timeout`` seconds for all of it; None: as long as each chunk is stored within
        30 seconds. While the source blocks, the timeout cannot end the call.

        Raises NotStoredError (the bucket is sealed or full, or its ``ttl`` is over before the end);
        PublishUnknownError (a TimeoutError) when the connection was lost at the very end and it is
        unknown whether the object was stored: then nothing is removed; ObjectStoreNotFoundError;
        MaxPayloadError (a smaller ``chunk_size`` helps); ConfigError before anything is sent, or
        when the source gives something else than bytes; what the source raises; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        meta = _meta(name_or_meta)
        if isinstance(data, os.PathLike):
            with open(data, "rb") as file:
                return self.put(meta, file, timeout=timeout, on_progress=on_progress)
        pieces = pieces_of(data)
        return write_all(ObjectWriter(self._backing, meta, Deadline(timeout), on_progress), pieces)

    def put_file(
        self,
        path: str | os.PathLike[str],
        name: str | ObjectMeta | None = None,
        *,
        timeout: Seconds | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> ObjectInfo:
        """Store a file, by default under the last part of its path.

        ``on_progress`` and everything else is as for :meth:`put`, which see: the old object stays
        until the new one is whole.

        Blocks up to ``timeout`` seconds for all of it; None: as long as each chunk is stored within
        30 seconds. Raises OSError for a file that cannot be read; NotStoredError;
        PublishUnknownError (a TimeoutError) when it is unknown whether the object was stored;
        ObjectStoreNotFoundError; MaxPayloadError; ConfigError before anything is sent;
        TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        meta = Path(path).name if name is None else name
        return self.put(meta, Path(path), timeout=timeout, on_progress=on_progress)

    @overload
    def open(
        self, name: str, mode: Literal["rb"] = "rb", *, timeout: Seconds | None = None
    ) -> ObjectReader: ...

    @overload
    def open(
        self, name: str | ObjectMeta, mode: Literal["wb"], *, timeout: Seconds | None = None
    ) -> ObjectWriter: ...

    def open(
        self, name: str | ObjectMeta, mode: str = "rb", *, timeout: Seconds | None = None
    ) -> ObjectReader | ObjectWriter:
        """Open an object as a binary file: to read it (``"rb"``, like :meth:`get`), or to write one
        (``"wb"``), which becomes visible when it is closed.

        Blocks until it is open. For a reader that takes up to ``timeout`` seconds (default: the
        JetStream object's). For a writer ``timeout`` is for all of what it does (None: as long as
        each chunk is stored within 30 seconds), and its other calls raise what :meth:`put` raises.

        Raises ConfigError for another mode or an invalid name; for a reader ObjectNotFoundError,
        ObjectLinkError, ObjectIntegrityError when its chunks are not there, ObjectMetaError;
        ObjectStoreNotFoundError; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        if mode == "wb":
            return ObjectWriter(self._backing, _meta(name), Deadline(timeout))
        if mode != "rb":
            raise ConfigError(f'an object is opened with mode "rb" or "wb", not {mode!r}')
        return self.get(_meta(name).name, timeout=timeout)

    def copy(
        self,
        name: str,
        new_name: str,
        *,
        to: ObjectStore | None = None,
        timeout: Seconds | None = None,
    ) -> ObjectInfo:
        """Store an object once more, under another name, in this bucket or in the one of ``to``.

        Links are followed. The bytes travel through this process, and are checked on their way;
        description, headers, metadata and the size of its chunks are kept.

        Blocks up to ``timeout`` seconds for all of it; None: as long as something comes, and each
        chunk is stored, within 30 seconds. Raises ObjectNotFoundError, ObjectLinkError,
        ObjectIntegrityError; ObjectMetaError; NotStoredError; MaxPayloadError where ``to`` takes no
        chunks of this size; PublishUnknownError (a TimeoutError) when it is unknown whether the
        copy was stored; ObjectStoreNotFoundError; ConfigError before anything is sent;
        TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        target = self if to is None else to
        deadline = Deadline(timeout)

        def store(reader: ObjectReader) -> ObjectInfo:
            info = reader.info
            meta = ObjectMeta(
                name=new_name,
                description=info.description,
                headers=info.headers,
                metadata=info.metadata,
                chunk_size=info.chunk_size or CHUNK_SIZE,
            )
            return target.put(meta, iter(reader.read1, b""), timeout=deadline.remaining())

        check_name(new_name)
        return self._whole(name, deadline, store)

    # -- descriptions ------------------------------------------------------------------------------

    @spells_out(MetaFields)
    def update_meta(
        self,
        name: str,
        *,
        new_name: str | None = None,
        timeout: Seconds | None = None,
        **fields: Unpack[MetaFields],
    ) -> ObjectInfo:
        """Change ``description``, ``headers`` or ``metadata`` of an object, or give it a
        ``new_name``; what is not given stays.

        While it is renamed the object can be got under one of the two names, whatever others write
        to them. After an interruption or PublishUnknownError the same call completes the renaming,
        as does the next write of either name; a renaming that is done already returns the object.
        That is so among clients of this library: others may remove the chunks of an object that is
        renamed while they put or delete it.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ObjectNotFoundError, also for a deleted one; ObjectExistsError when the new name is taken;
        NotStoredError; PublishUnknownError (a TimeoutError) when it is unknown whether the change
        was stored; ObjectStoreNotFoundError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        check_name(name)
        for field in fields:
            if field not in MetaFields.__annotations__:
                raise ConfigError(f"update_meta cannot change {field!r}: put the object again")
        ObjectMeta(name=name if new_name is None else new_name, **fields)  # checks them
        deadline = self._deadline(timeout)
        backing = self._backing

        def change(info: ObjectInfo) -> ObjectInfo:
            return dataclasses.replace(info, **fields)

        if new_name is not None and new_name != name:
            return rename(backing, name, new_name, change, deadline)
        return backing.replace(name, lambda found: change(backing.existing(name, found)), deadline)[
            1
        ]

    def delete(self, name: str, *, timeout: Seconds | None = None) -> ObjectInfo:
        """Delete an object or a link; the target of a link stays. Returns the description of the
        deletion. Deleting it again is fine.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ObjectNotFoundError when there never was one; NotStoredError; PublishUnknownError (a
        TimeoutError) when it is unknown whether the deletion was stored; ObjectStoreNotFoundError;
        ConfigError before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        check_name(name)
        backing = self._backing

        def emptied(found: Found | None) -> ObjectInfo:
            if found is not None and found.info is None:  # unreadable: it may be deleted
                return ObjectInfo(name=name, bucket=self.bucket, nuid=new_nuid(), deleted=True)
            info = backing.existing(name, found, show_deleted=True)
            return dataclasses.replace(info, deleted=True, size=0, chunks=0, digest="")

        deadline = self._deadline(timeout)
        found, stored = backing.replace(name, emptied, deadline)
        backing.remove_chunks_of(found, deadline)
        return stored

    def prune(
        self, *, older_than: Seconds = _AN_HOUR, timeout: Seconds | None = None
    ) -> list[PrunedChunks]:
        """Find chunks that no name leads to and whose last one is older than ``older_than`` seconds
        (an hour), remove them, and return what was removed.

        A process that is killed in the middle of a put leaves such chunks. Younger ones stay: they
        may be of an upload that is under way.

        Blocks up to ``timeout`` seconds for all of it; None: as long as something comes within the
        JetStream object's default. Raises ObjectStoreNotFoundError or another JetStreamError;
        ConfigError before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. After an error the next call has less to do.
        """
        age = to_seconds(older_than, "older_than")
        return prune(self._backing, age, timeout)

    # -- links -------------------------------------------------------------------------------------

    def add_link(
        self, name: str, target: ObjectInfo, *, timeout: Seconds | None = None
    ) -> ObjectInfo:
        """Add a link to an object, of this bucket or another one, as ``info`` returned it. A link
        of this name is replaced.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises ObjectLinkError
        for a target that is deleted or a link itself; ObjectExistsError when an object has the
        name; NotStoredError; PublishUnknownError (a TimeoutError) when it is unknown whether the
        link was stored; ObjectStoreNotFoundError; ConfigError before anything is sent;
        TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        if not isinstance(target, ObjectInfo):
            raise ConfigError("add_link needs the ObjectInfo of an object")
        if target.deleted or target.link is not None:
            what = "deleted" if target.deleted else "a link itself"
            raise ObjectLinkError(
                f"{target.name!r} is {what}: link to an object", bucket=self.bucket, name=name
            )
        return self._link(name, ObjectLink(bucket=target.bucket, name=target.name), timeout)

    def add_bucket_link(
        self, name: str, target: ObjectStore | str, *, timeout: Seconds | None = None
    ) -> ObjectInfo:
        """Add a link to the whole bucket ``target``, like a directory. A link of this name is
        replaced.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises ObjectExistsError
        when an object has the name; NotStoredError; PublishUnknownError (a TimeoutError) when it is
        unknown whether the link was stored; ObjectStoreNotFoundError; ConfigError before anything
        is sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        bucket = target.bucket if isinstance(target, ObjectStore) else check_bucket(target)
        return self._link(name, ObjectLink(bucket=bucket), timeout)

    def _link(self, name: str, link: ObjectLink, timeout: Seconds | None) -> ObjectInfo:
        check_name(name)
        info = ObjectInfo(name=name, bucket=self.bucket, nuid=new_nuid(), link=link)

        def decide(found: Found | None) -> ObjectInfo:
            there = found.info if found is not None else None
            if found is not None and not (there is not None and (there.deleted or there.link)):
                raise taken(self.bucket, name)
            return info

        return self._backing.replace(name, decide, self._deadline(timeout))[1]

    # -- the bucket --------------------------------------------------------------------------------

    def seal(self, *, timeout: Seconds | None = None) -> ObjectStoreStatus:
        """Seal the bucket: it refuses all changes from now on, for ever. Returns the new state.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ObjectStoreNotFoundError or another APIError; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        backing = self._backing
        try:
            sealed = backing.js.update_stream(
                name=backing.stream.name, sealed=True, timeout=self._deadline(timeout).remaining()
            )
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error
        return ObjectStoreStatus(sealed.cached_info)

    def __repr__(self) -> str:
        return f"ObjectStore({self.bucket!r})"


def _meta(name: str | ObjectMeta) -> ObjectMeta:
    if isinstance(name, str):
        return ObjectMeta(name=name)
    if not isinstance(name, ObjectMeta):
        raise ConfigError("an object needs a name or an ObjectMeta")
    return name
