"""ObjectStore: a handle on one bucket of objects."""

from __future__ import annotations

import builtins
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, overload

from jetsync._api_errors import StreamNotFoundError
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync.errors import (
    ConfigError,
    ObjectIntegrityError,
    ObjectLinkError,
    ObjectMetaError,
    ObjectNotFoundError,
    ObjectReplacedError,
)
from jetsync.jetstream import Stream
from jetsync.jetstream.consumers.config import DeliverPolicy
from jetsync.jetstream.streams.info import StreamInfo
from jetsync.objectstore.files import Target
from jetsync.objectstore.found import Found
from jetsync.objectstore.info import CHUNK_SIZE, ObjectInfo, ObjectLink, ObjectMeta
from jetsync.objectstore.listing import PrunedChunks, everything, prune
from jetsync.objectstore.moves import rename, taken
from jetsync.objectstore.names import check_bucket, check_name, new_nuid, stream_of
from jetsync.objectstore.place import Place, gone
from jetsync.objectstore.reader import ObjectReader
from jetsync.objectstore.status import ObjectStoreStatus
from jetsync.objectstore.upload import STALL, Source, pieces_of
from jetsync.objectstore.watcher import ObjectWatcher, begin
from jetsync.objectstore.writer import ObjectWriter, write_all

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.jetstream import JetStream

__all__ = ["ObjectStore"]

_MOST_LINKS = 8
_AN_HOUR = 3600.0

T = TypeVar("T")


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
        return Deadline(self._place.api.timeout if timeout is None else timeout)

    # -- putting -----------------------------------------------------------------------------------

    def put(
        self,
        name_or_meta: str | ObjectMeta,
        data: Source,
        *,
        timeout: Seconds | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> ObjectInfo:
        """Store an object, in place of the one of this name if there is one.

        It becomes visible when all of it is stored, and then the chunks of the old one are removed.
        A put that fails or is interrupted leaves everything as it was and removes its chunks. A few
        megabytes are in memory at a time. Of several puts of one name the last one stays, whole.

        ``timeout`` is for all of it; while the source takes its time for the next bytes, nothing
        can end the call. None: as long as each chunk is stored within 30 seconds. ``on_progress``
        is called with the number of bytes that are stored so far; what it raises ends the put.

        Raises NotStoredError (the bucket is sealed or full, or its ``ttl`` is over before the end),
        MaxPayloadError (a smaller ``chunk_size`` helps), what the source raises, and
        PublishUnknownError when the connection was lost at the very end and nobody can tell whether
        the object was stored: then nothing is removed.
        """
        meta = _meta(name_or_meta)
        if isinstance(data, os.PathLike):
            with open(data, "rb") as file:
                return self.put(meta, file, timeout=timeout, on_progress=on_progress)
        pieces = pieces_of(data)
        return write_all(ObjectWriter(self._place, meta, Deadline(timeout), on_progress), pieces)

    def put_file(
        self,
        path: str | os.PathLike[str],
        name: str | ObjectMeta | None = None,
        *,
        timeout: Seconds | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> ObjectInfo:
        """Store a file, by default under the last part of its path. Otherwise like :meth:`put`."""
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
        """Open an object as a binary file: to read it (``"rb"``, like :meth:`get`), or to write
        one (``"wb"``), which becomes visible when it is closed.

        ``timeout`` is for the opening of a reader, and for all of what a writer does.
        """
        if mode == "wb":
            return ObjectWriter(self._place, _meta(name), Deadline(timeout))
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
        description, headers and metadata are kept. ``timeout`` as for :meth:`put`. Raises like
        :meth:`get_bytes` and :meth:`put`.
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

    # -- getting -----------------------------------------------------------------------------------

    def get(
        self, name: str, *, timeout: Seconds | None = None, read_timeout: Seconds = STALL
    ) -> ObjectReader:
        """Open an object for reading, like a file that can seek; links are followed.

        ``timeout`` is for opening it, ``read_timeout`` for each wait for its next chunk. Raises
        ObjectNotFoundError, ObjectLinkError, ObjectIntegrityError when its chunks are not there.
        """
        wait = to_seconds(read_timeout, "read_timeout")
        opening = self._deadline(timeout)
        while True:
            place, info = self._follow(name, opening)
            try:
                return _reader(place, info, Deadline(None), wait, opening)
            except ObjectReplacedError:
                if opening.expired:
                    raise

    def get_bytes(
        self,
        name: str,
        *,
        start: int = 0,
        length: int | None = None,
        timeout: Seconds | None = None,
    ) -> bytes:
        """Return all bytes of an object, or ``length`` of them from ``start`` on (a negative
        ``start`` counts from the end).

        All bytes together are of one version of the object, whose digest was checked, also when it
        is replaced meanwhile. Of a part only the sizes of the chunks can be checked. ``timeout`` is
        for all of it; None: as long as something comes within 30 seconds. Raises like :meth:`get`.
        """
        if length is not None and length < 0:
            raise ConfigError(f"length must be 0 or more, got {length!r}")

        def read(reader: ObjectReader) -> bytes:
            first = start if start >= 0 else max(0, reader.info.size + start)
            reader.seek(first)
            return reader.read(-1 if length is None else length)

        return self._whole(name, Deadline(timeout), read)

    def get_file(
        self,
        name: str,
        path: str | os.PathLike[str],
        *,
        timeout: Seconds | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> ObjectInfo:
        """Write an object to a file, whole or not at all, in place of one that is there.

        The file keeps its permissions, and a symbolic link its place: the file that it leads to is
        replaced. A hard link is not: it keeps the old bytes. ``timeout`` as for :meth:`get_bytes`;
        ``on_progress`` is called with the number of bytes that came. Raises like it, and OSError
        (before anything is read: for a directory, a missing one, or a file that may not be
        written), ConfigError for what is no regular file.
        """
        target = Target(path)

        def save(reader: ObjectReader) -> ObjectInfo:
            with target.replaced() as file:
                while piece := reader.read1():
                    file.write(piece)
                    if on_progress is not None:
                        on_progress(reader.tell())
            return reader.info

        return self._whole(name, Deadline(timeout), save)

    def _whole(self, name: str, deadline: Deadline, use: Callable[[ObjectReader], T]) -> T:
        """Return what ``use`` makes of an object; it is called again with another version when the
        object is replaced meanwhile, and once with what the leader has before it is damaged."""
        from_leader = False
        while True:
            opening = Deadline(deadline.within(STALL))
            place, info = self._follow(name, opening)
            try:
                with _reader(
                    place, info, deadline, STALL, opening, from_leader=from_leader
                ) as reader:
                    return use(reader)
            except ObjectReplacedError:
                if deadline.expired:
                    raise
                from_leader = False
            except ObjectIntegrityError:
                if from_leader or deadline.expired:
                    raise
                from_leader = True

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

    def exists(self, name: str, *, timeout: Seconds | None = None) -> bool:
        """Whether there is an object or a link of this name. ``name in store`` is the same."""
        try:
            self.info(name, timeout=timeout)
        except ObjectNotFoundError:
            return False
        except ObjectMetaError:
            pass  # it is there, although it cannot be read
        return True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.exists(name)

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
        is taken. While it is renamed the object can be got under one of the two names, whatever
        others write to them. After an interruption or PublishUnknownError the same call completes
        the renaming, as does the next write of either name; a renaming that is done already
        returns the object. That is so among clients of this library: others may remove the
        chunks of an object that is renamed while they put or delete it.
        """
        check_name(name)
        for field in fields:
            if field not in MetaFields.__annotations__:
                raise ConfigError(f"update_meta cannot change {field!r}: put the object again")
        ObjectMeta(name=name if new_name is None else new_name, **fields)  # checks them
        deadline = self._deadline(timeout)
        place = self._place

        def change(info: ObjectInfo) -> ObjectInfo:
            return dataclasses.replace(info, **fields)

        if new_name is not None and new_name != name:
            return rename(place, name, new_name, change, deadline)
        return place.replace(name, lambda found: change(place.existing(name, found)), deadline)[1]

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

        deadline = self._deadline(timeout)
        found, stored = place.replace(name, emptied, deadline)
        place.remove_chunks_of(found, deadline)
        return stored

    def list(
        self,
        *,
        prefix: str = "",
        show_deleted: bool = False,
        timeout: Seconds | None = None,
    ) -> builtins.list[ObjectInfo]:
        """Return what the bucket says about all of its objects and links, or about those whose name
        begins with ``prefix``, oldest change first.

        ``timeout`` is for all of it; None: as long as something comes within the JetStream object's
        default. What cannot be read is left out, and the connection's ``on_error`` hears of it.
        """
        infos = []
        for found in everything(self._place, timeout):
            if found.info is None:
                self._place.report(found)
            elif found.info.name.startswith(prefix) and (show_deleted or not found.is_free):
                infos.append(found.info)
        return infos

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the objects and links that are there now."""
        return iter([info.name for info in self.list()])

    def prune(
        self, *, older_than: Seconds = _AN_HOUR, timeout: Seconds | None = None
    ) -> builtins.list[PrunedChunks]:
        """Find chunks that no name leads to and whose last one is older than ``older_than`` seconds
        (an hour), remove them, and return what was removed.

        A process that is killed in the middle of a put leaves such chunks. Younger ones stay: they
        may be of an upload that is under way. ``timeout`` as for :meth:`list`.
        """
        age = to_seconds(older_than, "older_than")
        return prune(self._place, age, timeout)

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
        ordered, end = begin(self._place, policy, self._deadline(timeout))
        end = 0 if updates_only else end
        return ObjectWatcher(self._place, ordered, end=end, ignore_deletes=ignore_deletes)

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
                raise taken(self.bucket, name)
            return info

        return self._place.replace(name, decide, self._deadline(timeout))[1]

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


def _meta(name: str | ObjectMeta) -> ObjectMeta:
    if isinstance(name, str):
        return ObjectMeta(name=name)
    if not isinstance(name, ObjectMeta):
        raise ConfigError("an object needs a name or an ObjectMeta")
    return name


def _reader(
    place: Place,
    info: ObjectInfo,
    deadline: Deadline,
    wait: float,
    opening: Deadline,
    *,
    from_leader: bool = False,
) -> ObjectReader:
    try:
        return ObjectReader(place, info, deadline, wait, opening, from_leader=from_leader)
    except StreamNotFoundError as error:
        raise gone(place.bucket) from error
