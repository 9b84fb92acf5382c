"""ObjectBacking: the stream behind a bucket of objects; reads and replaces their descriptions.

A put, a deletion or a change of an object's description is one message that replaces the one before
it, on the condition that this is still the last. So each of several writers knows which object it
has replaced and removes its chunks: none is left over and none removed twice.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync.errors import (
    Error,
    JetStreamNotEnabledError,
    MessageNotFoundError,
    NotStoredError,
    ObjectMetaError,
    ObjectNotFoundError,
    ObjectStoreError,
    ObjectStoreNotFoundError,
    PermissionsError,
    PublishUnknownError,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from jetsync.jetstream import Stream
from jetsync.jetstream.access import api_of
from jetsync.objectstore.cleanup import remove_chunks
from jetsync.objectstore.found import Found, read_found
from jetsync.objectstore.info import ObjectInfo, dump, load, parse
from jetsync.objectstore.moves import complete, seen_by_readers
from jetsync.objectstore.names import STREAM_PREFIX, encode, subjects

if TYPE_CHECKING:
    from jetsync.jetstream import JetStream
    from jetsync.jetstream.api import API

__all__ = ["ObjectBacking", "gone"]

_DEFAULT_API = "$JS.API"
_OWN_API = re.compile(r"\$JS\.([^.]+\.)?API")
"""The API of the account: the near one, or one of a domain."""
_LEAST = 0.2
"""Seconds for a request at the end of a call whose own time may be over."""
_LONGEST_READ = 5.0


class ObjectBacking:
    """The stream behind one bucket. Thread-safe."""

    def __init__(self, js: JetStream, stream: Stream) -> None:
        self.js = js
        self.stream = stream
        self.bucket: str = stream.name.removeprefix(STREAM_PREFIX)
        self.prefix: str = subjects(self.bucket)
        self.is_atomic: bool = stream.cached_info.config.allow_atomic
        """Whether a rename can be one batch."""
        self.every_meta: str = f"{self.prefix}M.>"
        """The subject of the descriptions of all objects."""
        # Another account's API is imported below a prefix, and what is written with it (ADR-19). A
        # server does not take objects below the prefix of its domain (2.15 maps $OBJ there, to
        # which no client writes); unprefixed subjects pass every leaf node.
        self.api: API = api_of(js)
        api = self.api.prefix
        self._write = "" if _OWN_API.fullmatch(api) else f"{api}."
        self._may_have_double = api != _DEFAULT_API and not self._write

    def meta_subject(self, name: str) -> str:
        """The subject of the description of an object."""
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
        near = self.api.port.connection.jetstream()
        try:
            info = near.stream(self.stream.name, timeout=deadline.remaining()).cached_info
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

    def find(self, name: str, deadline: Deadline) -> Found | None:
        """The last message about a name, as the leader has it; None for none. Blocks."""
        try:
            msg = self.stream.get_last_msg(self.meta_subject(name), timeout=deadline.remaining())
        except MessageNotFoundError:
            return None
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error
        return read_found(msg.seq, msg.data, self.bucket, msg.time_ns or 0)

    def settled(self, name: str, deadline: Deadline) -> Found | None:
        """The same, after completing a rename that the name belongs to. Blocks."""
        while True:
            found = self.find(name, deadline)
            if found is None or not complete(self, name, found, deadline):
                return found

    def info(self, name: str, deadline: Deadline, *, show_deleted: bool = False) -> ObjectInfo:
        """The state of an object. Blocks. Raises ObjectNotFoundError, ObjectMetaError."""
        found = self.find(name, deadline)
        if found is not None:
            found = seen_by_readers(self, name, found, deadline)
        return self.existing(name, found, show_deleted=show_deleted)

    def existing(self, name: str, found: Found | None, *, show_deleted: bool = False) -> ObjectInfo:
        """The state of an object that has to be there."""
        if found is not None and found.info is None:
            return load(parse(found.data, self.bucket), self.bucket, 0)  # raises with the reason
        if found is None or found.info is None or (found.info.deleted and not show_deleted):
            raise ObjectNotFoundError(
                f"there is no object {name!r} in bucket {self.bucket!r}",
                bucket=self.bucket,
                name=name,
            )
        return found.info

    def report(self, found: Found) -> None:
        """Tell the connection's ``on_error`` of a message that cannot be read."""
        try:
            load(parse(found.data, self.bucket), self.bucket, 0)
        except ObjectMetaError as error:
            self.api.port.report(error)

    def last_change(self, deadline: Deadline) -> int:
        """Sequence of the last message about any object; 0 for none. Blocks."""
        try:
            return self.stream.get_last_msg(self.every_meta, timeout=deadline.remaining()).seq
        except MessageNotFoundError:
            return 0

    def chunk_counts(self, deadline: Deadline, nuid: str = "*") -> dict[str, int]:
        """How many chunks the leader has of each content, by its id. Blocks."""
        subject = self.chunk_subject(nuid)
        try:
            info = self.stream.info(subjects_filter=subject, timeout=deadline.remaining())
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error
        start = len(self.chunk_subject(""))
        return {subject[start:]: count for subject, count in (info.state.subjects or {}).items()}

    # -- writing -----------------------------------------------------------------------------------

    def write(self, name: str, data: bytes, behind: int, deadline: Deadline) -> None:
        """Store a message about a name, if the last one is ``behind`` (0: there is none). Blocks.

        Raises WrongLastSequenceError, PublishUnknownError and the other errors of publishing.
        """
        self.check_double(deadline)
        self.js.publish(
            self.to_write(self.meta_subject(name)),
            data,
            rollup="sub",
            expected_last_subject_seq=behind,
            timeout=deadline.remaining(),
        )

    def write_together(
        self, messages: Sequence[tuple[str, bytes, int]], deadline: Deadline
    ) -> None:
        """Store messages (name, data, behind) all or none. Raises like :meth:`write`, and
        BatchPublishError where the stream takes no atomic batches."""
        self.check_double(deadline)
        batch = self.js.batch()
        for name, data, behind in messages:
            batch.add(
                self.to_write(self.meta_subject(name)),
                data,
                rollup="sub",
                expected_last_subject_seq=behind,
            )
        batch.commit(timeout=deadline.remaining())

    def replace(
        self, name: str, decide: Callable[[Found | None], ObjectInfo], deadline: Deadline
    ) -> tuple[Found | None, ObjectInfo]:
        """Store the message that ``decide`` makes of the present one; return both. Blocks.

        Decided anew when another client was faster. Raises what ``decide`` raises, NotStoredError,
        or PublishUnknownError when it may be stored.
        """
        return self.replace_found(name, self.settled(name, deadline), decide, deadline)

    def replace_found(
        self,
        name: str,
        found: Found | None,
        decide: Callable[[Found | None], ObjectInfo],
        deadline: Deadline,
    ) -> tuple[Found | None, ObjectInfo]:
        """As :meth:`replace`, of a message that was found before. The server refuses when another
        one has taken its place; then that one is looked up."""
        if found is not None and not found.is_settled:
            found = self.settled(name, deadline)
        while True:
            wanted = decide(found)
            data = dump(wanted)
            unknown: PublishUnknownError | None = None
            try:
                self.write(name, data, found.seq if found else 0, deadline)
            except WrongLastSequenceError:
                pass
            except PublishUnknownError as error:
                unknown = error
            else:
                return found, dataclasses.replace(wanted, modified_ns=time.time_ns())
            # After a lost answer the refusal can be due to this call's own copy.
            try:
                now = self.find(name, Deadline(max(_LEAST, deadline.within(_LONGEST_READ))))
                if now is not None and now.data == data and (not found or now.seq != found.seq):
                    return found, dataclasses.replace(wanted, modified_ns=time.time_ns())
                if unknown is None:
                    now = self.settled(name, deadline)
            except Error as error:
                raise unknown or NotStoredError(
                    f"object {name!r} of bucket {self.bucket!r} was not stored: another client "
                    "was faster, and what is there now could not be read in time"
                ) from error
            if unknown is not None:
                raise unknown
            found = now

    # -- removing ----------------------------------------------------------------------------------

    def remove_chunks_of(self, found: Found | None, deadline: Deadline) -> None:
        """Remove the chunks of what was replaced. Blocks for what is left of the call's time.

        It is no failure of the call when this fails: they only take room.
        """
        if found is None or found.is_free or not found.nuid:
            return
        if found.info is None or found.info.chunks or found.info.size:
            remove_chunks(self, found.nuid, deadline)


def gone(bucket: str) -> ObjectStoreNotFoundError:
    """The error for a bucket that is not there."""
    return ObjectStoreNotFoundError(
        f"there is no bucket {bucket!r}: create it, or correct the name or the domain",
        bucket=bucket,
    )
