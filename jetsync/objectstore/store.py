"""ObjectStore: a handle on one bucket of objects."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypedDict

from jetsync._api_errors import StreamNotFoundError
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync.errors import (
    ConfigError,
    NotStoredError,
    ObjectExistsError,
    ObjectIntegrityError,
    ObjectLinkError,
)
from jetsync.jetstream import Stream
from jetsync.jetstream.consumers.config import DeliverPolicy
from jetsync.jetstream.streams.info import StreamInfo
from jetsync.objectstore.info import ObjectInfo, ObjectLink, ObjectMeta, digest_of
from jetsync.objectstore.names import check_bucket, check_name, stream_of
from jetsync.objectstore.place import Found, Place, gone, new_nuid
from jetsync.objectstore.reader import ObjectReader
from jetsync.objectstore.status import ObjectStoreStatus
from jetsync.objectstore.upload import STALL, Upload, chunks_of
from jetsync.objectstore.watcher import ObjectWatcher

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.jetstream import JetStream

__all__ = ["ObjectStore"]

_MOST_LINKS = 8

Source = bytes | bytearray | memoryview | IO[bytes] | Iterable[bytes] | os.PathLike[str]
"""What can be put: bytes, a file opened in binary mode, an iterable of bytes, a ``Path``."""


class MetaFields(TypedDict, total=False):
    """What ``ObjectStore.update_meta`` can change."""

    description: str | None
    headers: Mapping[str, builtins.list[str]]
    metadata: Mapping[str, str]


class ObjectStore:
    """A bucket of objects of any size. Made by the object store calls of ``JetStream``.

    Thread-safe; every call blocks up to ``timeout`` seconds (default: the JetStream object's, where
    nothing else is said) and raises TimeoutError, ObjectStoreNotFoundError when the bucket is gone,
    ConfigError for what cannot be before anything is sent, ObjectMetaError for what some other
    program has left. The leader is asked about objects, so everybody sees what was put before.
    Names are any text.
    """

    def __init__(self, js: JetStream, stream: Stream) -> None:
        self._place = Place(js, stream)

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._place.bucket

    def _deadline(self, timeout: Seconds | None) -> Deadline:
        return self._place.js._deadline(timeout)

    # -- putting -----------------------------------------------------------------------------------

    def put(
        self, name_or_meta: str | ObjectMeta, data: Source, *, timeout: Seconds | None = None
    ) -> ObjectInfo:
        """Store an object, in place of the one of this name if there is one.

        It becomes visible when all of it is stored, and then the chunks of the old one are removed.
        A put that fails or is interrupted leaves everything as it was and removes its chunks. About
        4 MiB are in memory at a time. Of several puts of one name the last one stays, whole.

        ``timeout`` is for all of it, except what the source takes to give its next bytes; None: as
        long as each chunk is stored within 30 seconds. Raises NotStoredError (the bucket is sealed
        or full), MaxPayloadError (a smaller ``chunk_size`` helps), what the source raises, and
        PublishUnknownError when the connection was lost at the very end and nobody can tell whether
        the object was stored: then nothing is removed.
        """
        meta = ObjectMeta(name=name_or_meta) if isinstance(name_or_meta, str) else name_or_meta
        if not isinstance(meta, ObjectMeta):
            raise ConfigError("put needs a name or an ObjectMeta")
        if isinstance(data, str):
            raise ConfigError("put takes bytes: encode a text; put_file takes the path of a file")
        if isinstance(data, os.PathLike):
            with open(data, "rb") as file:
                return self._put(meta, file, Deadline(timeout))
        return self._put(meta, data, Deadline(timeout))

    def put_file(
        self,
        path: str | os.PathLike[str],
        name: str | ObjectMeta | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> ObjectInfo:
        """Store a file, by default under the last part of its path. Otherwise like :meth:`put`."""
        return self.put(Path(path).name if name is None else name, Path(path), timeout=timeout)

    def _put(self, meta: ObjectMeta, data: Source, deadline: Deadline) -> ObjectInfo:
        place = self._place
        # Whoever cannot be told anything afterwards is told before the work.
        opening = Deadline(deadline.within(STALL))
        place.check_double(opening)
        place.look(meta.name, opening)
        nuid = new_nuid()
        upload = Upload(place, nuid, meta.chunk_size, deadline)
        may_be_visible = False
        try:
            upload.run(chunks_of(data, meta.chunk_size))
            info = ObjectInfo(
                **_described(meta),
                bucket=self.bucket,
                nuid=nuid,
                size=upload.size,
                chunks=upload.chunks,
                digest=digest_of(upload.content),
            )

            def show(_: Found | None) -> ObjectInfo:
                nonlocal may_be_visible
                may_be_visible = True
                return info

            found, stored = place.replace(meta.name, show, Deadline(deadline.within(STALL)))
        except BaseException as error:
            # When the last message may be stored, somebody may be reading the chunks already.
            if not may_be_visible or isinstance(error, NotStoredError):
                upload.undo()
            raise
        if found is not None:
            place.remove_chunks(found.info)
        return stored

    # -- getting -----------------------------------------------------------------------------------

    def get(
        self, name: str, *, timeout: Seconds | None = None, read_timeout: Seconds = STALL
    ) -> ObjectReader:
        """Open an object for reading, like a file; links are followed.

        ``timeout`` is for opening it, ``read_timeout`` for each wait for its next chunk. Raises
        ObjectNotFoundError, ObjectLinkError, ObjectIntegrityError when its chunks are not there.
        """
        wait = to_seconds(read_timeout, "read_timeout")
        return self._get(name, self._deadline(timeout), Deadline(None), wait)

    def get_bytes(self, name: str, *, timeout: Seconds | None = None) -> bytes:
        """Return all bytes of an object. Raises like :meth:`get` and the reader.

        ``timeout`` is for all of it; None: as long as something comes within 30 seconds.
        """
        with self._get_whole(name, timeout) as reader:
            return reader.read()

    def get_file(
        self, name: str, path: str | os.PathLike[str], *, timeout: Seconds | None = None
    ) -> ObjectInfo:
        """Write an object to a file, whole or not at all, in place of one that is there.

        ``timeout`` as for :meth:`get_bytes`. Raises like it, and OSError.
        """
        target = Path(path)
        with self._get_whole(name, timeout) as reader:
            handle, partial = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
            try:
                with open(handle, "wb") as file:
                    while piece := reader.read1():
                        file.write(piece)
                os.replace(partial, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(partial)
                raise
            return reader.info

    def _get_whole(self, name: str, timeout: Seconds | None) -> ObjectReader:
        deadline = Deadline(timeout)
        return self._get(name, Deadline(deadline.within(STALL)), deadline, STALL)

    def _get(self, name: str, opening: Deadline, deadline: Deadline, wait: float) -> ObjectReader:
        place, info = self._follow(name, opening)
        while True:
            try:
                return ObjectReader(place, info, deadline, wait, opening)
            except StreamNotFoundError as error:
                raise gone(place.bucket) from error
            except ObjectIntegrityError:
                # Replaced since we asked? Then there is another one to read.
                now = place.info(info.name, opening)
                if now.nuid == info.nuid or now.link is not None:
                    raise
                info = now

    def _follow(self, name: str, deadline: Deadline) -> tuple[Place, ObjectInfo]:
        """The object behind any number of links, and where it is."""
        place = self._place
        info = place.info(check_name(name), deadline)
        for _ in range(_MOST_LINKS):
            link = info.link
            if link is None:
                return place, info
            if link.name is None:
                raise ObjectLinkError(
                    f"{name!r} links to all of bucket {link.bucket!r}: open that with object_store",
                    bucket=self.bucket,
                    name=name,
                )
            if link.bucket != place.bucket:
                place = self._other(link.bucket, deadline)
            info = place.info(link.name, deadline)
        raise ObjectLinkError(
            f"{name!r} leads through more than {_MOST_LINKS} links, maybe in a circle",
            bucket=self.bucket,
            name=name,
        )

    def _other(self, bucket: str, deadline: Deadline) -> Place:
        js = self._place.js
        try:
            return Place(js, js.stream(stream_of(bucket), timeout=deadline.remaining()))
        except StreamNotFoundError as error:
            raise gone(bucket) from error

    # -- what is said about objects ----------------------------------------------------------------

    def info(
        self, name: str, *, show_deleted: bool = False, timeout: Seconds | None = None
    ) -> ObjectInfo:
        """Return what the bucket says about an object or a link. Raises ObjectNotFoundError."""
        return self._place.info(
            check_name(name), self._deadline(timeout), show_deleted=show_deleted
        )

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

        Raises ObjectNotFoundError, also for a deleted one, and ObjectExistsError when the new name
        is taken. Giving a new name is two steps: for a moment the object has both, and a put of the
        old name at that moment removes the chunks of both.
        """
        check_name(name)
        target = name if new_name is None else new_name
        ObjectMeta(name=target, **fields)  # checks them
        deadline = self._deadline(timeout)
        place = self._place

        def changed(found: Found | None) -> ObjectInfo:
            return dataclasses.replace(place.existing(name, found), name=target, **fields)

        if target == name:
            return place.replace(name, changed, deadline)[1]
        old = place.look(name, deadline)
        wanted = changed(old)

        def free(found: Found | None) -> ObjectInfo:
            if found is not None and not (found.info is not None and found.info.deleted):
                raise self._taken(target)
            return wanted

        stored = place.replace(target, free, deadline)[1]
        place.stream.purge(
            subject=place.meta_subject(name),
            seq=old.seq + 1 if old else None,
            timeout=deadline.remaining(),
        )
        return stored

    def delete(self, name: str, *, timeout: Seconds | None = None) -> ObjectInfo:
        """Delete an object or a link; what a link leads to stays. Returns what remains to be said.

        Deleting it again is fine; ObjectNotFoundError when there never was one.
        """
        check_name(name)
        place = self._place

        def emptied(found: Found | None) -> ObjectInfo:
            if found is not None and found.info is None:  # nobody can read it: it may be deleted
                return ObjectInfo(name=name, bucket=self.bucket, nuid=new_nuid(), deleted=True)
            info = place.existing(name, found, show_deleted=True)
            return dataclasses.replace(info, deleted=True, size=0, chunks=0, digest="")

        found, stored = place.replace(name, emptied, self._deadline(timeout))
        if found is not None:
            place.remove_chunks(found.info)
        return stored

    def list(
        self, *, show_deleted: bool = False, timeout: Seconds | None = None
    ) -> builtins.list[ObjectInfo]:
        """Return what the bucket says about all of its objects and links, oldest change first."""
        deadline = self._deadline(timeout)
        found: dict[str, ObjectInfo] = {}
        with self.watch(timeout=deadline.remaining()) as watcher:
            for info in watcher.initial(deadline.remaining()):
                found.pop(info.name, None)
                if show_deleted or not info.deleted:
                    found[info.name] = info
        return [*found.values()]

    def watch(
        self,
        *,
        ignore_deletes: bool = False,
        include_history: bool = False,
        updates_only: bool = False,
        timeout: Seconds | None = None,
    ) -> ObjectWatcher:
        """Return an iterator over what happens to objects, first over what is there.

        ``updates_only`` leaves out what is there; ``include_history`` asks for earlier messages
        too, where a bucket has any. ``timeout`` is for beginning it.
        """
        if include_history and updates_only:
            raise ConfigError("give either include_history or updates_only, not both")
        policy: str = DeliverPolicy.LAST_PER_SUBJECT
        if include_history:
            policy = DeliverPolicy.ALL
        elif updates_only:
            policy = DeliverPolicy.NEW
        deadline = self._deadline(timeout)
        place = self._place
        try:
            ordered = place.js.ordered_consumer(
                place.stream.name,
                filter_subjects=place.every_meta,
                deliver_policy=policy,
                timeout=deadline.remaining(),
            )
            end = 0 if updates_only else place.last_change(deadline)
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error
        return ObjectWatcher(place, ordered, end=end, ignore_deletes=ignore_deletes)

    # -- links -------------------------------------------------------------------------------------

    def add_link(
        self, name: str, target: ObjectInfo, *, timeout: Seconds | None = None
    ) -> ObjectInfo:
        """Add a link to an object, of this bucket or another one, as ``info`` returned it.

        A link of this name is replaced. Raises ObjectLinkError for a target that is deleted or a
        link itself, ObjectExistsError when an object has the name.
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
        """Add a link to a whole bucket, like a directory. Otherwise like :meth:`add_link`."""
        bucket = target.bucket if isinstance(target, ObjectStore) else check_bucket(target)
        return self._link(name, ObjectLink(bucket=bucket), timeout)

    def _link(self, name: str, link: ObjectLink, timeout: Seconds | None) -> ObjectInfo:
        check_name(name)
        info = ObjectInfo(name=name, bucket=self.bucket, nuid=new_nuid(), link=link)

        def decide(found: Found | None) -> ObjectInfo:
            there = found.info if found is not None else None
            if found is not None and not (there is not None and (there.deleted or there.link)):
                raise self._taken(name)
            return info

        return self._place.replace(name, decide, self._deadline(timeout))[1]

    def _taken(self, name: str) -> ObjectExistsError:
        return ObjectExistsError(
            f"there is an object {name!r} in bucket {self.bucket!r} already: take another name, or "
            "delete it first",
            bucket=self.bucket,
            name=name,
        )

    # -- the bucket --------------------------------------------------------------------------------

    def seal(self, *, timeout: Seconds | None = None) -> ObjectStoreStatus:
        """Refuse all changes from now on, for ever. Returns the new state."""
        place = self._place
        try:
            sealed = place.js.update_stream(
                name=place.stream.name, sealed=True, timeout=self._deadline(timeout).remaining()
            )
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error
        return ObjectStoreStatus(sealed.cached_info)

    def status(self, *, timeout: Seconds | None = None) -> ObjectStoreStatus:
        """Ask how the bucket is configured and what it holds."""
        try:
            info: StreamInfo = self._place.stream.info(timeout=self._deadline(timeout).remaining())
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error
        return ObjectStoreStatus(info)

    def __repr__(self) -> str:
        return f"ObjectStore({self.bucket!r})"


def _described(meta: ObjectMeta) -> dict[str, Any]:
    """The fields of an ObjectInfo that the user gives."""
    return {field.name: getattr(meta, field.name) for field in dataclasses.fields(meta)}
