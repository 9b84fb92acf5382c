"""Place: where the objects of a bucket lie, and how what is said about one is read and replaced.

A put, a deletion or a change of an object's description is one message that replaces the one before
it, on the condition that this is still the last. So of several writers each knows what it has
replaced, and its chunks are removed by that one: nothing is left over and nothing removed twice.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from jetsync._api_errors import (
    JetStreamNotEnabledError,
    MessageNotFoundError,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from jetsync._deadline import Deadline
from jetsync.errors import (
    Error,
    NotStoredError,
    ObjectMetaError,
    ObjectNotFoundError,
    ObjectStoreError,
    ObjectStoreNotFoundError,
    PermissionsError,
    PublishUnknownError,
)
from jetsync.jetstream import Stream
from jetsync.objectstore.info import ObjectInfo, dump, load
from jetsync.objectstore.names import STREAM_PREFIX, encode, subjects

if TYPE_CHECKING:
    from jetsync.jetstream import JetStream

__all__ = ["Found", "Place", "gone", "new_nuid"]

logger = logging.getLogger("jetsync")

_DEFAULT_API = "$JS.API"
_OWN_API = re.compile(r"\$JS\.([^.]+\.)?API")
"""The API of the account: the near one, or one of a domain."""
_CLEANING = 5.0
"""Seconds for removing chunks that nobody needs, whatever the call has left."""


class Found(NamedTuple):
    """The last message about an object; ``info`` is None when it cannot be read."""

    seq: int
    data: bytes
    info: ObjectInfo | None


class Place:
    """The stream of one bucket. Thread-safe."""

    def __init__(self, js: JetStream, stream: Stream) -> None:
        self.js = js
        self.stream = stream
        self.bucket = stream.name.removeprefix(STREAM_PREFIX)
        self.prefix = subjects(self.bucket)
        self.every_meta = f"{self.prefix}M.>"
        """What is said about all objects."""
        # Another account's API is imported below a prefix, and what is written with it (ADR-19). A
        # server does not take objects below the prefix of its domain (2.15 maps $OBJ there, which
        # nobody writes to); as they are they pass every leaf node.
        api = js._api.prefix
        self._write = "" if _OWN_API.fullmatch(api) else f"{api}."
        self._may_have_double = api != _DEFAULT_API and not self._write

    def meta_subject(self, name: str) -> str:
        """What is said about an object has this subject."""
        return f"{self.prefix}M.{encode(name)}"

    def chunk_subject(self, nuid: str) -> str:
        """The chunks of one content have this subject."""
        return f"{self.prefix}C.{nuid}"

    def to_write(self, subject: str) -> str:
        """Where a message is sent to be stored under ``subject``."""
        return self._write + subject

    def check_double(self, deadline: Deadline) -> None:
        """Refuse to write to the bucket of a domain while the near domain has one of this name: it
        would store the same messages. Blocks the first time. Raises ObjectStoreError."""
        if not self._may_have_double:
            return
        near = self.js._nc.jetstream()
        try:
            info = near._stream_info(self.stream.name, None, False, deadline.remaining())
        except (StreamNotFoundError, JetStreamNotEnabledError, PermissionsError):
            info = None
        there = self.stream.cached_info
        if info is not None and (info.domain, info.created) != (there.domain, there.created):
            raise ObjectStoreError(
                f"domains {info.domain!r} and {there.domain!r} both have a bucket {self.bucket!r}, "
                "and both would store what is written here: give one of them another name",
                bucket=self.bucket,
            )
        self._may_have_double = False

    # -- reading -----------------------------------------------------------------------------------

    def look(self, name: str, deadline: Deadline) -> Found | None:
        """What the leader has about an object; None for nothing. Blocks."""
        try:
            msg = self.stream.get_last_msg(self.meta_subject(name), timeout=deadline.remaining())
        except MessageNotFoundError:
            return None
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error
        try:
            return Found(msg.seq, msg.data, load(msg.data, self.bucket, msg.time_ns or 0))
        except ObjectMetaError:
            return Found(msg.seq, msg.data, None)

    def info(self, name: str, deadline: Deadline, *, show_deleted: bool = False) -> ObjectInfo:
        """The state of an object. Blocks. Raises ObjectNotFoundError, ObjectMetaError."""
        return self.existing(name, self.look(name, deadline), show_deleted=show_deleted)

    def existing(self, name: str, found: Found | None, *, show_deleted: bool = False) -> ObjectInfo:
        """The state of an object that has to be there."""
        if found is not None and found.info is None:
            return load(found.data, self.bucket, 0)  # which says what is wrong
        if found is None or found.info is None or (found.info.deleted and not show_deleted):
            raise ObjectNotFoundError(
                f"there is no object {name!r} in bucket {self.bucket!r}",
                bucket=self.bucket,
                name=name,
            )
        return found.info

    def last_change(self, deadline: Deadline) -> int:
        """Sequence of the last message about any object; 0 for none. Blocks."""
        try:
            return self.stream.get_last_msg(self.every_meta, timeout=deadline.remaining()).seq
        except MessageNotFoundError:
            return 0

    # -- replacing ---------------------------------------------------------------------------------

    def replace(
        self, name: str, decide: Callable[[Found | None], ObjectInfo], deadline: Deadline
    ) -> tuple[Found | None, ObjectInfo]:
        """Store what ``decide`` makes of what is there; return both. Blocks.

        Decided anew when somebody else was faster. Raises what ``decide`` raises, NotStoredError,
        or PublishUnknownError when it may be stored.
        """
        self.check_double(deadline)
        found = self.look(name, deadline)
        while True:
            wanted = decide(found)
            data = dump(wanted)
            unknown: PublishUnknownError | None = None
            try:
                self.js.publish(
                    self.to_write(self.meta_subject(name)),
                    data,
                    rollup="sub",
                    expected_last_subject_seq=found.seq if found else 0,
                    timeout=deadline.remaining(),
                )
            except WrongLastSequenceError:
                pass
            except PublishUnknownError as error:
                unknown = error
            else:
                return found, dataclasses.replace(wanted, modified_ns=time.time_ns())
            # After a lost answer our own copy can be what stands in the way.
            try:
                now = self.look(name, Deadline(_CLEANING) if unknown else deadline)
            except Error as error:
                raise unknown or NotStoredError(
                    f"object {name!r} of bucket {self.bucket!r} was not stored: somebody else "
                    "was faster, and what is there now could not be read in time"
                ) from error
            if now is not None and now.data == data and (found is None or now.seq != found.seq):
                return found, dataclasses.replace(wanted, modified_ns=time.time_ns())
            if unknown is not None:
                raise unknown
            found = now

    # -- removing ----------------------------------------------------------------------------------

    def remove_chunks(self, info: ObjectInfo | None) -> None:
        """Remove the chunks of a content that nobody can find any more. Blocks a few seconds.

        It is no failure of the call when this fails: they only take room.
        """
        if info is None or info.deleted or info.link is not None or not info.chunks:
            return
        self.purge(info.nuid)

    def purge(self, nuid: str) -> None:
        """Remove the chunks of one id, as :meth:`remove_chunks` does."""
        try:
            self.stream.purge(subject=self.chunk_subject(nuid), timeout=_CLEANING)
        except Error as error:
            logger.warning("chunks of %s in %s were not removed: %s", nuid, self.bucket, error)


def new_nuid() -> str:
    """An id that nobody else has."""
    return secrets.token_hex(11)


def gone(bucket: str) -> ObjectStoreNotFoundError:
    """The error for a bucket that is not there."""
    return ObjectStoreNotFoundError(
        f"there is no bucket {bucket!r}: create it, or correct the name or the domain",
        bucket=bucket,
    )
