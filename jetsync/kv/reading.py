"""Reading a bucket by its keys: one, or many; and its status."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

from jetsync._deadline import Deadline, Seconds
from jetsync.errors import (
    ConfigError,
    KeyDeletedError,
    KeyNotFoundError,
    MessageNotFoundError,
    StreamNotFoundError,
)
from jetsync.jetstream import StoredMsg
from jetsync.kv.backing import KeyValueBacking, gone
from jetsync.kv.entry import Entry, KeyValueOperation, from_store, operation_of
from jetsync.kv.names import check_any_key
from jetsync.kv.status import KeyValueStatus

__all__ = ["Reading", "check_revision"]

T = TypeVar("T")


class _Missing:
    """Marks a default that was not given."""

    def __repr__(self) -> str:
        return "<none given>"


_MISSING = _Missing()
_LARGEST = 2**64 - 1
_AT_ONCE = 1000
_BYTES_AT_ONCE = 128 * 1024
"""Keys asked for by one request: a server answers for 1,024 subjects at most."""


class Reading:
    """The calls of ``KeyValue`` that ask for keys by their names."""

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

    # -- the bucket --------------------------------------------------------------------------------

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
    is_whole = isinstance(revision, int) and not isinstance(revision, bool)
    if not is_whole or not least <= revision <= _LARGEST:
        raise ConfigError(
            f"a revision must be an int of {least} or more, and of 64 bits, got {revision!r}"
        )


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
