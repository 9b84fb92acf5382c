"""Reading a bucket: one key, many, all of them, their history, and watching writes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync.errors import (
    ConfigError,
    KeyDeletedError,
    KeyNotFoundError,
    KeyValueError,
    MessageNotFoundError,
    StreamNotFoundError,
)
from jetsync.jetstream import JetStreamMsg, StoredMsg
from jetsync.jetstream.buckets.listing import present
from jetsync.jetstream.config.consumer import DeliverPolicy
from jetsync.kv.backing import KeyValueBacking, gone
from jetsync.kv.entry import Entry, KeyValueOperation, from_delivery, from_store, operation_of
from jetsync.kv.names import check_any_key, check_patterns
from jetsync.kv.resume import ResumeToken
from jetsync.kv.status import KeyValueStatus
from jetsync.kv.watcher import Watcher

__all__ = ["Reading", "check_revision"]

T = TypeVar("T")


class _Missing:
    """Marks a default that was not given."""

    def __repr__(self) -> str:
        return "<none given>"


_MISSING = _Missing()
_AT_ONCE = 1000
_BYTES_AT_ONCE = 128 * 1024
"""Keys asked for by one request: a server answers for 1,024 subjects at most."""


class Reading:
    """The calls of ``KeyValue`` that change nothing."""

    def __init__(self, backing: KeyValueBacking) -> None:
        self._backing = backing

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._backing.bucket

    def _deadline(self, timeout: Seconds | None) -> Deadline:
        return Deadline(self._backing.api.timeout if timeout is None else timeout)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Raise BucketNotFoundError in place of the error about its stream."""
        try:
            yield
        except StreamNotFoundError as error:
            raise gone(self.bucket) from error

    # -- one key -----------------------------------------------------------------------------------

    @overload
    def get(
        self,
        key: str,
        *,
        revision: int | None = None,
        at_least: int | None = None,
        direct: bool = True,
        timeout: Seconds | None = None,
    ) -> Entry: ...

    @overload
    def get(
        self,
        key: str,
        *,
        default: T,
        revision: int | None = None,
        at_least: int | None = None,
        direct: bool = True,
        timeout: Seconds | None = None,
    ) -> Entry | T: ...

    def get(
        self,
        key: str,
        *,
        default: object = _MISSING,
        revision: int | None = None,
        at_least: int | None = None,
        direct: bool = True,
        timeout: Seconds | None = None,
    ) -> object:
        """Return the last entry of a key, or the one of a ``revision``.

        Any server that holds the bucket answers, and one that is behind with an older entry; if it
        is a mirror, the copy answers. With ``at_least`` an answer older than that revision is not
        taken: the leader is asked, so that a ``get`` after a ``put`` or a watch sees at least that.
        With ``direct=False`` the leader is asked, which knows of every acknowledged write.

        Without a value it returns ``default`` if that is given.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises KeyNotFoundError
        when the key has no value and no ``default`` is given, or its subclass KeyDeletedError for a
        deletion; BucketNotFoundError or another APIError; ConfigError before anything is sent;
        TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        check_any_key(key)
        for number in (revision, at_least):
            if number is not None:
                check_revision(number)
        deadline = self._deadline(timeout)
        msg = self._read(key, revision, deadline, direct=direct)
        if direct and at_least is not None and (msg is None or msg.seq < at_least):
            msg = self._read(key, revision, deadline, direct=False)
        entry = None if msg is None else from_store(self.bucket, key, msg)
        if entry is not None and entry.operation is KeyValueOperation.PUT:
            return entry
        if not isinstance(default, _Missing):
            return default
        if entry is None:
            raise self._not_found(key, revision)
        raise KeyDeletedError(
            f"key {key!r} of bucket {self.bucket!r} was deleted in revision {entry.revision}; "
            "create or put gives it a value again",
            bucket=self.bucket,
            key=key,
            revision=entry.revision,
        )

    def _read(
        self, key: str, revision: int | None, deadline: Deadline, *, direct: bool
    ) -> StoredMsg | None:
        try:
            with self._named():
                return self._backing.read(key, revision, deadline, direct=direct)
        except MessageNotFoundError:
            return None

    def _not_found(self, key: str, revision: int | None = None) -> KeyNotFoundError:
        which = "" if revision is None else f" in revision {revision}"
        return KeyNotFoundError(
            f"key {key!r} of bucket {self.bucket!r} has no value{which}",
            bucket=self.bucket,
            key=key,
        )

    def exists(self, key: str, *, direct: bool = True, timeout: Seconds | None = None) -> bool:
        """Return whether a key has a value. ``key in kv`` is the same.

        Any server that holds the bucket answers; with ``direct=False`` the leader is asked, which
        knows of every acknowledged write.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        BucketNotFoundError or another APIError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return self.get(key, default=None, direct=direct, timeout=timeout) is not None

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.exists(key)

    def __getitem__(self, key: str) -> bytes:
        """The value of a key. Raises KeyNotFoundError."""
        return self.get(key).value

    # -- many keys ---------------------------------------------------------------------------------

    def get_many(self, keys: Iterable[str], *, timeout: Seconds | None = None) -> dict[str, Entry]:
        """Return the last entries of several keys, without those that have no value.

        Asks for up to 1,000 keys by one request (server 2.11; else one by one), which a server
        answers as of one moment. It may be one that is behind, as for :meth:`get`.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        BucketNotFoundError or another APIError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        wanted = list(dict.fromkeys(check_any_key(key) for key in keys))
        deadline = self._deadline(timeout)
        found: dict[str, Entry] = {}
        with self._named():
            for some in _portions(wanted):
                msgs = self._backing.read_many(some, deadline)
                if msgs is None:
                    alone = ((key, self._read(key, None, deadline, direct=True)) for key in some)
                    msgs = {key: msg for key, msg in alone if msg is not None}
                for key in some:
                    msg = msgs.get(key)
                    if msg and operation_of(msg.raw_headers) is KeyValueOperation.PUT:
                        found[key] = from_store(self.bucket, key, msg)
        return found

    def keys(
        self, filters: str | Sequence[str] | None = None, *, timeout: Seconds | None = None
    ) -> list[str]:
        """Return the keys that have a value: all, or those that match one of the ``filters``.

        A filter may have the wildcards ``*`` (one token) and ``>`` (the rest); they must not
        overlap. In the order of their revisions; values do not travel. :meth:`iter_keys` shows them
        as they come.

        Blocks up to ``timeout`` seconds for all of it; None: as long as something comes within the
        JetStream object's default, so that buckets of any size can be listed. Raises
        BucketNotFoundError or another JetStreamError; ConfigError before anything is sent;
        TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        patterns, start = check_patterns(_filters(filters)), len(self._backing.prefix)
        found: dict[str, None] = {}
        for messages in self._present(patterns, *self._for_all(timeout), meta_only=True):
            for msg in messages:
                key = msg.subject[start:]
                found.pop(key, None)
                if operation_of(msg.raw_headers) is KeyValueOperation.PUT:
                    found[key] = None
        return list(found)

    def iter_keys(
        self, filters: str | Sequence[str] | None = None, *, timeout: Seconds | None = None
    ) -> Iterator[str]:
        """Iterate over the keys that have a value while they are read: all, or those that match one
        of the ``filters``.

        A filter is as for :meth:`keys`. A key that is written while it is listed may come twice,
        and one that is deleted meanwhile may come. Nothing is kept: a million keys need no more
        memory than a few. Leaving the loop ends the reading.

        Blocks while it is iterated, up to ``timeout`` seconds (default: the JetStream object's) for
        each next key. Raises ConfigError at once, then BucketNotFoundError or another
        JetStreamError; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        patterns, start = check_patterns(_filters(filters)), len(self._backing.prefix)
        return (
            msg.subject[start:]
            for messages in self._present(patterns, *self._for_each(timeout), meta_only=True)
            for msg in messages
            if operation_of(msg.raw_headers) is KeyValueOperation.PUT
        )

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys that have a value, like :meth:`iter_keys`."""
        return self.iter_keys()

    def entries(
        self, filters: str | Sequence[str] | None = None, *, timeout: Seconds | None = None
    ) -> Iterator[Entry]:
        """Iterate over the last entries of all keys that have a value, or of those that match one
        of the ``filters``. Filters, and writes meanwhile, are as for :meth:`iter_keys`.

        Blocks while it is iterated, up to ``timeout`` seconds (default: the JetStream object's) for
        each next entry. Raises ConfigError at once, then BucketNotFoundError or another
        JetStreamError; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        patterns = check_patterns(_filters(filters))
        return (
            entry
            for entry in self._entries(patterns, *self._for_each(timeout))
            if entry.operation is KeyValueOperation.PUT
        )

    def items(
        self, filters: str | Sequence[str] | None = None, *, timeout: Seconds | None = None
    ) -> Iterator[tuple[str, bytes]]:
        """Iterate over keys and their values: all, or those that match one of the ``filters``.
        Filters, and writes meanwhile, are as for :meth:`iter_keys`.

        Blocks while it is iterated, up to ``timeout`` seconds (default: the JetStream object's) for
        each next pair. Raises ConfigError at once, then BucketNotFoundError or another
        JetStreamError; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return ((entry.key, entry.value) for entry in self.entries(filters, timeout=timeout))

    def history(self, key: str, *, timeout: Seconds | None = None) -> list[Entry]:
        """Return the entries of a key that the bucket has kept, oldest first, with deletions.
        ``delta`` says how far each is from the last one.

        Blocks up to ``timeout`` seconds for all of it; None: as long as something comes within the
        JetStream object's default. Raises KeyNotFoundError; BucketNotFoundError or another
        JetStreamError; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError.
        """
        patterns = check_patterns(check_any_key(key))
        entries = list(self._entries(patterns, *self._for_all(timeout), include_history=True))
        if not entries:
            raise self._not_found(key)
        last = len(entries) - 1
        return [dataclasses.replace(one, delta=last - n) for n, one in enumerate(entries)]

    def iter_history(
        self, filters: str | Sequence[str] | None = None, *, timeout: Seconds | None = None
    ) -> Iterator[Entry]:
        """Iterate over all entries that the bucket has kept, with deletions, oldest first: of all
        keys, or of those that match one of the ``filters`` (as for :meth:`keys`).

        Blocks while it is iterated, up to ``timeout`` seconds (default: the JetStream object's) for
        each next entry. Raises ConfigError at once, then BucketNotFoundError or another
        JetStreamError; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        patterns = check_patterns(_filters(filters))
        return self._entries(patterns, *self._for_each(timeout), include_history=True)

    def _for_all(self, timeout: Seconds | None) -> tuple[Deadline | None, float]:
        """The time of a listing: ``timeout`` for all of it, or else a limit for each step."""
        return None if timeout is None else Deadline(timeout), self._backing.api.timeout

    def _for_each(self, timeout: Seconds | None) -> tuple[Deadline | None, float]:
        """The time of a listing that is iterated over: a limit for each step."""
        return None, self._backing.api.timeout if timeout is None else to_seconds(timeout)

    def _entries(
        self,
        patterns: Sequence[str],
        deadline: Deadline | None,
        step: float,
        *,
        include_history: bool = False,
        meta_only: bool = False,
    ) -> Iterator[Entry]:
        """Iterate over the entries that are there now."""
        bucket, start = self.bucket, len(self._backing.prefix)
        for messages in self._present(
            patterns, deadline, step, include_history=include_history, meta_only=meta_only
        ):
            for msg in messages:
                yield from_delivery(bucket, msg.subject[start:], msg)

    def _present(
        self,
        patterns: Sequence[str],
        deadline: Deadline | None,
        step: float,
        *,
        include_history: bool = False,
        meta_only: bool = False,
    ) -> Iterator[Sequence[JetStreamMsg]]:
        """Iterate over the messages that are there now, as many at a time as come."""
        with self._watch(
            patterns,
            deadline or Deadline(step),
            include_history=include_history,
            meta_only=meta_only,
        ) as watcher:
            yield from present(watcher, deadline, step)

    # -- watching ----------------------------------------------------------------------------------

    def watch(
        self,
        keys: str | Sequence[str] = ">",
        *,
        ignore_deletes: bool = False,
        include_history: bool = False,
        updates_only: bool = False,
        meta_only: bool = False,
        resume_from_revision: int | None = None,
        resume_token: str | None = None,
        timeout: Seconds | None = None,
    ) -> Watcher:
        """Return an iterator over the entries of a key, or of all keys that match a pattern.

        ``keys`` is one or several patterns, with the wildcards ``*`` (one token) and ``>`` (the
        rest), that do not overlap. It begins with the last entry of each key; with
        ``include_history`` with all entries that the bucket has kept; with ``updates_only`` with
        the next one that is written. With ``resume_token`` (``Watcher.resume_token`` of an earlier
        watch) it goes on behind the last entry of that watch; with ``resume_from_revision`` it
        begins with that revision, of whatever bucket has this name now. ``ignore_deletes`` leaves
        out deletions, ``meta_only`` the values.

        Blocks for four round trips, up to ``timeout`` seconds (default: the JetStream object's).
        Raises KeyValueError for a revision that the bucket has not reached, or for a token of a
        bucket that was deleted and made again since; BucketNotFoundError or another APIError;
        ConfigError before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        patterns = check_patterns(keys)
        if (
            include_history
            + updates_only
            + (resume_from_revision is not None)
            + (resume_token is not None)
        ) > 1:
            raise ConfigError(
                "include_history, updates_only, resume_from_revision and resume_token exclude "
                "each other"
            )
        token = None if resume_token is None else ResumeToken.parse(resume_token)
        if resume_from_revision is not None:
            check_revision(resume_from_revision)
        start = resume_from_revision if token is None else token.revision + 1
        deadline = self._deadline(timeout)
        status = self.status(timeout=deadline.remaining())
        now = ResumeToken.of(status)
        if token is not None and token.created_ns != now.created_ns:
            raise KeyValueError(
                f"bucket {self.bucket!r} was deleted and made again since, so a watch cannot go "
                f"on behind revision {token.revision} of the old one: begin a new watch",
                bucket=self.bucket,
            )
        if start is not None:
            self._check_reached(start - 1, status)
        return self._watch(
            patterns,
            deadline,
            include_history=include_history,
            updates_only=updates_only,
            meta_only=meta_only,
            ignore_deletes=ignore_deletes,
            start=start,
            origin=now,
        )

    def _watch(
        self,
        patterns: Sequence[str],
        deadline: Deadline,
        *,
        include_history: bool = False,
        updates_only: bool = False,
        meta_only: bool = False,
        ignore_deletes: bool = False,
        start: int | None = None,
        origin: ResumeToken | None = None,
    ) -> Watcher:
        policy = DeliverPolicy.LAST_PER_SUBJECT
        if include_history:
            policy = DeliverPolicy.ALL
        elif updates_only:
            policy = DeliverPolicy.NEW
        elif start is not None:
            policy = DeliverPolicy.BY_START_SEQUENCE
        backing, end = self._backing, 0
        with self._named():
            ordered = backing.js.ordered_consumer(
                backing.stream,
                filter_subjects=[backing.prefix + pattern for pattern in patterns],
                deliver_policy=policy,
                opt_start_seq=start,
                headers_only=meta_only,
                timeout=deadline.remaining(),
            )
            if not updates_only:
                end = backing.last_revision(patterns, deadline)
        return Watcher(
            backing, patterns, ordered, end=end, ignore_deletes=ignore_deletes, origin=origin
        )

    def _check_reached(self, revision: int, status: KeyValueStatus) -> None:
        """Raise KeyValueError for a revision that the bucket never had."""
        last = status.stream_info.state.last_seq
        if revision > last:
            raise KeyValueError(
                f"bucket {self.bucket!r} has no revision above {last}, so a watch cannot go on "
                f"behind {revision}: it was made again or has lost its end",
                bucket=self.bucket,
            )

    def status(self, *, timeout: Seconds | None = None) -> KeyValueStatus:
        """Ask how much the bucket holds and how it is configured.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        BucketNotFoundError or another APIError; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        backing = self._backing
        with self._named():
            return KeyValueStatus(backing.js.stream(backing.stream, timeout=timeout).cached_info)


def check_revision(revision: int, *, least: int = 1) -> None:
    """Raise ConfigError for an invalid revision."""
    if isinstance(revision, bool) or not isinstance(revision, int) or revision < least:
        raise ConfigError(f"a revision must be an int of {least} or more, got {revision!r}")


def _filters(filters: str | Sequence[str] | None) -> str | Sequence[str]:
    return ">" if filters is None else filters


def _portions(keys: Sequence[str]) -> Iterator[list[str]]:
    """Cut a list of keys into parts that one request can ask for."""
    some: list[str] = []
    size = 0
    for key in keys:
        if some and (len(some) == _AT_ONCE or size + len(key) > _BYTES_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(key)
        size += len(key) + 100
    if some:
        yield some
