"""Reading a bucket of objects: contents, descriptions, lists and watches."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._numbers import check_whole
from jetsync.errors import (
    ConfigError,
    ObjectIntegrityError,
    ObjectLinkError,
    ObjectMetaError,
    ObjectNotFoundError,
    ObjectReplacedError,
    StreamNotFoundError,
)
from jetsync.jetstream import Stream
from jetsync.jetstream.config.consumer import DeliverPolicy
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.objectstore.backing import ObjectBacking, gone
from jetsync.objectstore.files import Target
from jetsync.objectstore.info import ObjectInfo
from jetsync.objectstore.listing import everything
from jetsync.objectstore.names import check_name, stream_of
from jetsync.objectstore.reader import ObjectReader
from jetsync.objectstore.status import ObjectStoreStatus
from jetsync.objectstore.upload import STALL
from jetsync.objectstore.watcher import ObjectWatcher, begin

if TYPE_CHECKING:
    from jetsync.jetstream import JetStream

__all__ = ["Reading"]

_MOST_LINKS = 8
_FIRST = -(2**63)

T = TypeVar("T")


class Reading:
    """The calls of ``ObjectStore`` that change nothing."""

    def __init__(self, js: JetStream, stream: Stream) -> None:
        self._backing = ObjectBacking(js, stream)

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._backing.bucket

    def _deadline(self, timeout: Seconds | None) -> Deadline:
        return Deadline(self._backing.api.timeout if timeout is None else timeout)

    # -- getting -----------------------------------------------------------------------------------

    def get(
        self, name: str, *, timeout: Seconds | None = None, read_timeout: Seconds = STALL
    ) -> ObjectReader:
        """Open an object for reading, like a file that can seek; links are followed.

        Blocks up to ``timeout`` seconds (default: the JetStream object's) until it is open; each
        wait for its next chunk takes up to ``read_timeout`` seconds. Raises ObjectNotFoundError,
        ObjectLinkError, ObjectIntegrityError when its chunks are not there; ObjectMetaError;
        ObjectStoreNotFoundError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        wait = to_seconds(read_timeout, "read_timeout")
        opening = self._deadline(timeout)
        while True:
            backing, info = self._follow(name, opening)
            try:
                return _reader(backing, info, Deadline(None), wait, opening)
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
        is replaced meanwhile. Of a part only the sizes of the chunks can be checked. Links are
        followed.

        Blocks up to ``timeout`` seconds for all of it; None: as long as something comes within 30
        seconds. Raises ObjectNotFoundError, ObjectLinkError, ObjectIntegrityError when its bytes
        are missing or not those that were put; ObjectMetaError; ObjectStoreNotFoundError;
        ConfigError before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        check_whole("start", start, least=_FIRST)
        if length is not None:
            check_whole("length", length, least=0)

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
        replaced. A hard link is not: it keeps the old bytes. ``on_progress`` is called with the
        number of bytes that came.

        Blocks up to ``timeout`` seconds for all of it; None: as long as something comes within 30
        seconds. Raises OSError (before anything is read: for a directory, a missing one, or a file
        that may not be written), ConfigError for what is no regular file; ObjectNotFoundError,
        ObjectLinkError, ObjectIntegrityError when its bytes are missing or not those that were put;
        ObjectMetaError; ObjectStoreNotFoundError; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError.
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
            backing, info = self._follow(name, opening)
            try:
                with _reader(
                    backing, info, deadline, STALL, opening, from_leader=from_leader
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

    def _follow(self, name: str, deadline: Deadline) -> tuple[ObjectBacking, ObjectInfo]:
        """The object behind any number of links, and where it is."""
        backing = self._backing
        info = backing.info(check_name(name), deadline)
        for _ in range(_MOST_LINKS):
            link = info.link
            if link is None:
                return backing, info
            if link.name is None:
                raise ObjectLinkError(
                    f"{name!r} links to all of bucket {link.bucket!r}: open that with object_store",
                    bucket=self.bucket,
                    name=name,
                )
            if link.bucket != backing.bucket:
                backing = self._other(link.bucket, deadline)
            info = backing.info(link.name, deadline)
        raise ObjectLinkError(
            f"{name!r} leads through more than {_MOST_LINKS} links, maybe in a circle",
            bucket=self.bucket,
            name=name,
        )

    def _other(self, bucket: str, deadline: Deadline) -> ObjectBacking:
        js = self._backing.js
        try:
            return ObjectBacking(js, js.stream(stream_of(bucket), timeout=deadline.remaining()))
        except StreamNotFoundError as error:
            raise gone(bucket) from error

    # -- descriptions ------------------------------------------------------------------------------

    def info(
        self, name: str, *, show_deleted: bool = False, timeout: Seconds | None = None
    ) -> ObjectInfo:
        """Return what the bucket says about an object or a link, as the leader knows it; with
        ``show_deleted`` also about a deleted one.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ObjectNotFoundError; ObjectMetaError for a description that cannot be read;
        ObjectStoreNotFoundError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return self._backing.info(
            check_name(name), self._deadline(timeout), show_deleted=show_deleted
        )

    def exists(self, name: str, *, timeout: Seconds | None = None) -> bool:
        """Return whether there is an object or a link of this name. ``name in store`` is the same.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ObjectStoreNotFoundError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        try:
            self.info(name, timeout=timeout)
        except ObjectNotFoundError:
            return False
        except ObjectMetaError:
            pass  # it is there, although it cannot be read
        return True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.exists(name)

    def list(
        self,
        *,
        prefix: str = "",
        show_deleted: bool = False,
        timeout: Seconds | None = None,
    ) -> builtins.list[ObjectInfo]:
        """Return what the bucket says about all of its objects and links, or about those whose name
        begins with ``prefix``, oldest change first; with ``show_deleted`` also about deleted ones.

        A description that cannot be read is left out and reported to the connection's ``on_error``.

        Blocks up to ``timeout`` seconds for all of it; None: as long as something comes within the
        JetStream object's default. Raises ObjectStoreNotFoundError or another JetStreamError;
        TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        infos = []
        for found in everything(self._backing, timeout):
            if found.info is None:
                self._backing.report(found)
            elif found.info.name.startswith(prefix) and (show_deleted or not found.is_free):
                infos.append(found.info)
        return infos

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the objects and links that are there now."""
        return iter([info.name for info in self.list()])

    def watch(
        self,
        *,
        ignore_deletes: bool = False,
        include_history: bool = False,
        updates_only: bool = False,
        timeout: Seconds | None = None,
    ) -> ObjectWatcher:
        """Return an iterator over changes of objects; it begins with the present ones.

        ``updates_only`` leaves out what is there; ``include_history`` asks for earlier messages
        too, where a bucket has any; ``ignore_deletes`` leaves out deletions.

        Blocks for a few round trips, up to ``timeout`` seconds (default: the JetStream object's).
        Raises ObjectStoreNotFoundError or another APIError; ConfigError for options that exclude
        each other; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        if include_history and updates_only:
            raise ConfigError("give either include_history or updates_only, not both")
        policy = DeliverPolicy.LAST_PER_SUBJECT
        if include_history:
            policy = DeliverPolicy.ALL
        elif updates_only:
            policy = DeliverPolicy.NEW
        ordered, end = begin(self._backing, policy, self._deadline(timeout))
        end = 0 if updates_only else end
        return ObjectWatcher(self._backing, ordered, end=end, ignore_deletes=ignore_deletes)

    def status(self, *, timeout: Seconds | None = None) -> ObjectStoreStatus:
        """Ask how the bucket is configured and what it holds.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ObjectStoreNotFoundError or another APIError; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError.
        """
        try:
            info: StreamInfo = self._backing.stream.info(
                timeout=self._deadline(timeout).remaining()
            )
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error
        return ObjectStoreStatus(info)


def _reader(
    backing: ObjectBacking,
    info: ObjectInfo,
    deadline: Deadline,
    wait: float,
    opening: Deadline,
    *,
    from_leader: bool = False,
) -> ObjectReader:
    try:
        return ObjectReader(backing, info, deadline, wait, opening, from_leader=from_leader)
    except StreamNotFoundError as error:
        raise gone(backing.bucket) from error
