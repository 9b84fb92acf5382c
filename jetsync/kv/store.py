"""KeyValue: a handle on one bucket."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Any

from jetsync._api_errors import MessageNotFoundError, StreamNotFoundError
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync.errors import (
    ConfigError,
    KeyDeletedError,
    KeyNotFoundError,
    KeyValueError,
)
from jetsync.jetstream.consumers.config import DeliverPolicy
from jetsync.kv.entry import OPERATION, Entry, KeyValueOperation, from_store
from jetsync.kv.names import check_key, check_patterns
from jetsync.kv.place import Place, gone
from jetsync.kv.status import KeyValueStatus
from jetsync.kv.watcher import Watcher
from jetsync.kv.writes import Write

__all__ = ["KeyValue"]

_OLD = 30 * 60.0


class KeyValue:
    """A bucket of keys and values. Made by the key-value calls of ``JetStream``.

    Thread-safe; every call blocks up to ``timeout`` seconds for all of it (default: the JetStream
    object's) and raises TimeoutError, BucketNotFoundError when the bucket is gone, and ConfigError
    before anything is sent for what cannot be a key or value. A key is made of letters, digits and
    ``-/_=``, in tokens with dots between them; a value is bytes.

    Writes have the integrity of ``JetStream.publish``: they are sent again after a lost connection
    and never stored twice. One that cannot be stored raises NotStoredError, one of which nothing is
    known PublishUnknownError.
    """

    def __init__(self, place: Place) -> None:
        self._place = place

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._place.bucket

    def _deadline(self, timeout: Seconds | None) -> Deadline:
        return self._place.js._deadline(timeout)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Say that the bucket is gone, not its stream."""
        try:
            yield
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error

    # -- reading -----------------------------------------------------------------------------------

    def get(
        self,
        key: str,
        *,
        revision: int | None = None,
        direct: bool = True,
        timeout: Seconds | None = None,
    ) -> Entry:
        """Return the last entry of a key, or the one of a ``revision``.

        Any server that holds the bucket answers (the copy, if it is a mirror), and one that is
        behind with an older entry. With ``direct=False`` the leader is asked, which knows of every
        acknowledged write.

        Raises KeyNotFoundError, or its subclass KeyDeletedError for a deletion.
        """
        check_key(key)
        if revision is not None:
            _check_revision(revision)
        try:
            with self._named():
                msg = self._place.read(key, revision, self._deadline(timeout), direct=direct)
        except MessageNotFoundError as error:
            raise self._not_found(key, revision) from error
        entry = from_store(self.bucket, key, msg)
        if entry.operation is not KeyValueOperation.PUT:
            raise KeyDeletedError(
                f"key {key!r} of bucket {self.bucket!r} was deleted in revision {entry.revision}; "
                "create or put gives it a value again",
                bucket=self.bucket,
                key=key,
                revision=entry.revision,
            )
        return entry

    def _not_found(self, key: str, revision: int | None = None) -> KeyNotFoundError:
        which = "" if revision is None else f" in revision {revision}"
        return KeyNotFoundError(
            f"key {key!r} of bucket {self.bucket!r} has no value{which}",
            bucket=self.bucket,
            key=key,
        )

    def keys(
        self, filters: str | Sequence[str] | None = None, *, timeout: Seconds | None = None
    ) -> list[str]:
        """Return the keys that have a value: all, or those that match one of the ``filters``.

        A filter may have the wildcards ``*`` (one token) and ``>`` (the rest); they must not
        overlap. In the order of their revisions; values do not travel.
        """
        found: dict[str, None] = {}
        for entry in self._now(">" if filters is None else filters, timeout, meta_only=True):
            found.pop(entry.key, None)
            if entry.operation is KeyValueOperation.PUT:
                found[entry.key] = None
        return list(found)

    def history(self, key: str, *, timeout: Seconds | None = None) -> list[Entry]:
        """Return the entries of a key that the bucket has kept, oldest first, with deletions.

        ``delta`` says how far each is from the last one. Raises KeyNotFoundError.
        """
        entries = list(self._now(check_key(key), timeout, include_history=True))
        if not entries:
            raise self._not_found(key)
        last = len(entries) - 1
        return [dataclasses.replace(one, delta=last - n) for n, one in enumerate(entries)]

    def _now(
        self,
        keys: str | Sequence[str],
        timeout: Seconds | None,
        *,
        include_history: bool = False,
        meta_only: bool = False,
    ) -> Iterator[Entry]:
        """Iterate over what is there now."""
        deadline = self._deadline(timeout)
        with self.watch(
            keys,
            include_history=include_history,
            meta_only=meta_only,
            timeout=deadline.remaining(),
        ) as watcher:
            yield from watcher.initial(deadline.remaining())

    def watch(
        self,
        keys: str | Sequence[str] = ">",
        *,
        ignore_deletes: bool = False,
        include_history: bool = False,
        updates_only: bool = False,
        meta_only: bool = False,
        resume_from_revision: int | None = None,
        timeout: Seconds | None = None,
    ) -> Watcher:
        """Return an iterator over the entries of a key, or of all keys that match a pattern.

        ``keys`` is one or several patterns, with the wildcards ``*`` (one token) and ``>`` (the
        rest), that do not overlap. It begins with the last entry of each key; with
        ``include_history`` with all entries that the bucket has kept; with ``updates_only`` with
        the next one that is written; with ``resume_from_revision`` with all entries of that
        revision and above. ``ignore_deletes`` leaves out deletions, ``meta_only`` the values.

        Blocks for three round trips, up to ``timeout`` seconds. Raises ConfigError, and
        KeyValueError for a revision that the bucket has not reached.
        """
        patterns = check_patterns(keys)
        policy: str = DeliverPolicy.LAST_PER_SUBJECT
        if include_history + updates_only + (resume_from_revision is not None) > 1:
            raise ConfigError(
                "include_history, updates_only and resume_from_revision exclude each other"
            )
        if include_history:
            policy = DeliverPolicy.ALL
        elif updates_only:
            policy = DeliverPolicy.NEW
        elif resume_from_revision is not None:
            _check_revision(resume_from_revision)
            policy = DeliverPolicy.BY_START_SEQUENCE
        deadline = self._deadline(timeout)
        place, end = self._place, 0
        with self._named():
            if resume_from_revision is not None:
                self._check_reached(resume_from_revision - 1, deadline)
            ordered = place.js.ordered_consumer(
                place.stream,
                filter_subjects=[place.prefix + pattern for pattern in patterns],
                deliver_policy=policy,
                opt_start_seq=resume_from_revision,
                headers_only=meta_only,
                timeout=deadline.remaining(),
            )
            if not updates_only:
                end = place.last_revision(patterns, deadline)
        return Watcher(place, patterns, ordered, end=end, ignore_deletes=ignore_deletes)

    def _check_reached(self, revision: int, deadline: Deadline) -> None:
        """Refuse to wait for revisions behind one that the bucket never had."""
        last = self.status(timeout=deadline.remaining()).stream_info.state.last_seq
        if revision > last:
            raise KeyValueError(
                f"bucket {self.bucket!r} has no revision above {last}, so a watch cannot go on "
                f"behind {revision}: it was made again or has lost its end",
                bucket=self.bucket,
            )

    def status(self, *, timeout: Seconds | None = None) -> KeyValueStatus:
        """Ask how much the bucket holds and how it is configured."""
        place = self._place
        with self._named():
            return KeyValueStatus(place.js._stream_info(place.stream, None, False, timeout))

    # -- writing -----------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, *, timeout: Seconds | None = None) -> int:
        """Give a key a value, whatever it had before; return the revision."""
        return self._write(key, value, timeout).store()

    def create(
        self,
        key: str,
        value: bytes,
        *,
        ttl: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Give a key a value if it has none, or none any more; return the revision.

        After ``ttl`` seconds (at least 1) it ages out; that needs a bucket with
        ``limit_marker_ttl``, else it raises TTLError.

        Raises KeyExistsError. An earlier attempt of this very call is no reason for it.
        """
        with self._named():
            return self._write(key, value, timeout, ttl=ttl).store_first()

    def update(
        self, key: str, value: bytes, revision: int, *, timeout: Seconds | None = None
    ) -> int:
        """Give a key a value if ``revision`` is its last one (0: if it never had any); return the
        new revision.

        Raises KeyWrongRevisionError when somebody else wrote it. An earlier attempt of this very
        call is no reason for it.
        """
        _check_revision(revision, least=0)
        with self._named():
            return self._write(key, value, timeout).store_behind(revision)

    def delete(
        self, key: str, *, revision: int | None = None, timeout: Seconds | None = None
    ) -> int:
        """Take a key's value away and keep its history; return the revision of the deletion.

        With ``revision`` only if that is the last one (KeyWrongRevisionError). A key that has no
        value is deleted too: that is no error.
        """
        write = self._write(key, b"", timeout, headers={OPERATION: KeyValueOperation.DELETE.value})
        return self._remove(write, revision)

    def purge(
        self,
        key: str,
        *,
        revision: int | None = None,
        ttl: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Take a key's value and its whole history away; return the revision of the deletion.

        With ``revision`` only if that is the last one (KeyWrongRevisionError). The deletion itself
        goes after ``ttl`` seconds, in a bucket with ``limit_marker_ttl``.
        """
        headers = {OPERATION: KeyValueOperation.PURGE.value}
        write = self._write(key, b"", timeout, headers=headers, rollup="sub", ttl=ttl)
        return self._remove(write, revision)

    def _write(self, key: str, value: bytes, timeout: Seconds | None, **options: Any) -> Write:
        return Write(self._place, check_key(key), value, self._deadline(timeout), **options)

    def _remove(self, write: Write, revision: int | None) -> int:
        if revision is None:
            return write.store()
        _check_revision(revision)
        with self._named():
            return write.store_behind(revision)

    def purge_deletes(self, *, older_than: Seconds = _OLD, timeout: Seconds | None = None) -> int:
        """Remove what deleted keys have left: their history, and deletions older than
        ``older_than`` seconds (30 minutes); return how many entries that were.

        Younger deletions stay for the watchers that have not seen them. A key that is written
        again meanwhile keeps its new value. Blocks for a round trip per deleted key; after a
        TimeoutError it can be called again.
        """
        age = to_seconds(older_than, "older_than")
        deadline = self._deadline(timeout)
        everything = self._now(">", deadline.remaining(), meta_only=True)
        deleted = [one for one in everything if one.operation is not KeyValueOperation.PUT]
        removed, limit = 0, time.time() - age
        for entry in deleted:
            is_old = entry.created_ns / 1e9 <= limit
            below = entry.revision + 1 if is_old else entry.revision
            with self._named():
                removed += self._place.purge(entry.key, below, deadline)
        return removed

    def __repr__(self) -> str:
        return f"KeyValue({self.bucket!r})"


def _check_revision(revision: int, *, least: int = 1) -> None:
    if isinstance(revision, bool) or not isinstance(revision, int) or revision < least:
        raise ConfigError(f"a revision must be an int of {least} or more, got {revision!r}")
