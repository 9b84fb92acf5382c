"""KeyValue: a handle on one bucket."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._handles import Handle
from jetsync.errors import KeyWrongRevisionError
from jetsync.kv.entry import OPERATION, KeyValueOperation, operation_of
from jetsync.kv.listing import Listing
from jetsync.kv.names import check_any_key, check_key
from jetsync.kv.reading import check_revision
from jetsync.kv.writes import Write

__all__ = ["KeyValue"]

_OLD = 30 * 60.0
_DELAY = 0.02
_LONGEST_DELAY = 0.5


class KeyValue(Handle, Listing):
    """A bucket of keys and values (ADR-8). Made by the key-value calls of ``JetStream``.

    Thread-safe; every call blocks up to ``timeout`` seconds for all of it (default: the JetStream
    object's) and raises TimeoutError, BucketNotFoundError when the bucket is gone, and ConfigError
    before anything is sent for what cannot be a key or value. A key is made of letters, digits and
    ``-/_=``, in tokens with dots between them; a value is bytes.

    Writes have the integrity of ``JetStream.publish``: they are sent again after a lost connection
    and never stored twice. One that cannot be stored raises NotStoredError, one of which nothing is
    known PublishUnknownError.
    """

    # -- writing -----------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, *, timeout: Seconds | None = None) -> int:
        """Give a key a value (bytes), whatever it had before; return the revision.

        It is sent again after a lost connection, and never stored twice.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises NotStoredError
        (APIError subclasses among them) when the value is certainly not stored, PublishUnknownError
        (a TimeoutError) when it may be; BucketNotFoundError; MaxPayloadError and ConfigError before
        anything is sent; ConnectionClosedError.
        """
        return self._write(check_key(key), value, timeout).store()

    def create(
        self,
        key: str,
        value: bytes,
        *,
        ttl: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Give a key a value (bytes) if it has none, or none any more; return the revision.

        After ``ttl`` seconds (at least 1) it ages out (ADR-48); that needs a bucket with
        ``limit_marker_ttl`` and server 2.11, which raises a shorter ``ttl`` to that time in a
        bucket with history. It is sent again after a lost connection; an earlier
        attempt of this very call is no reason for KeyExistsError.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises KeyExistsError (a
        NotStoredError) when the key has a value; TTLError for a ``ttl`` in a bucket without
        ``limit_marker_ttl``; NotStoredError when the value is certainly not stored,
        PublishUnknownError (a TimeoutError) when it may be; BucketNotFoundError; MaxPayloadError,
        ConfigError and ApiLevelRequiredError (``ttl`` before server 2.11) before anything is sent;
        PermissionsError, ConnectionClosedError.
        """
        with self._named():
            return self._write(check_key(key), value, timeout, ttl=ttl).store_first()

    def update(
        self, key: str, value: bytes, revision: int, *, timeout: Seconds | None = None
    ) -> int:
        """Give a key a value (bytes) if ``revision`` is its last one (0: if it never had any);
        return the new revision.

        It is sent again after a lost connection; an earlier attempt of this very call is no reason
        for KeyWrongRevisionError.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        KeyWrongRevisionError (a NotStoredError) when another client wrote it; NotStoredError when
        the value is certainly not stored, PublishUnknownError (a TimeoutError) when it may be;
        BucketNotFoundError; MaxPayloadError and ConfigError before anything is sent;
        PermissionsError, ConnectionClosedError.
        """
        check_revision(revision, least=0)
        with self._named():
            return self._write(check_key(key), value, timeout).store_behind(revision)

    def delete(
        self, key: str, *, revision: int | None = None, timeout: Seconds | None = None
    ) -> int:
        """Take a key's value away and keep its history; return the revision of the deletion.

        With ``revision`` only if that is the last one. A key that has no value is deleted too: that
        is no error.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises with ``revision``
        KeyWrongRevisionError (a NotStoredError) when another client wrote it; NotStoredError when
        the deletion is certainly not stored, PublishUnknownError (a TimeoutError) when it may be;
        BucketNotFoundError; ConfigError before anything is sent; PermissionsError,
        ConnectionClosedError.
        """
        write = self._write(
            check_any_key(key), b"", timeout, headers={OPERATION: KeyValueOperation.DELETE.value}
        )
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

        With ``revision`` only if that is the last one. The deletion itself goes after ``ttl``
        seconds, in a bucket with ``limit_marker_ttl`` (server 2.11).

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises with ``revision``
        KeyWrongRevisionError (a NotStoredError) when another client wrote it; TTLError for a
        ``ttl`` in a bucket without ``limit_marker_ttl``; NotStoredError when the deletion is
        certainly not stored, PublishUnknownError (a TimeoutError) when it may be;
        BucketNotFoundError; ConfigError and ApiLevelRequiredError (``ttl`` before server 2.11)
        before anything is sent; PermissionsError, ConnectionClosedError.
        """
        headers = {OPERATION: KeyValueOperation.PURGE.value}
        write = self._write(
            check_any_key(key), b"", timeout, headers=headers, rollup="sub", ttl=ttl
        )
        return self._remove(write, revision)

    def _write(self, key: str, value: bytes, timeout: Seconds | None, **options: Any) -> Write:
        return Write(self._backing, key, value, self._deadline(timeout), **options)

    def _remove(self, write: Write, revision: int | None) -> int:
        if revision is None:
            return write.store()
        check_revision(revision)
        with self._named():
            return write.store_behind(revision)

    def modify(
        self,
        key: str,
        change: Callable[[bytes | None], bytes | None],
        *,
        timeout: Seconds | None = None,
    ) -> int:
        """Give a key the value that ``change`` makes of the one it has; return the revision.

        ``change`` gets the value, or None when there is none, and returns the new one, or None to
        leave the key as it is (then the revision that it has is returned, 0 for none). When another
        client was faster it is called again with the newer value, so it should do nothing else. No
        change is applied twice: after a lost answer the write is found by its message id.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises what ``change``
        raises; KeyWrongRevisionError (a NotStoredError) when others were faster until the time was
        over; NotStoredError when the value is certainly not stored, PublishUnknownError (a
        TimeoutError) when it is unknown whether the last attempt was stored; BucketNotFoundError;
        MaxPayloadError and ConfigError before it is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError.
        """
        check_key(key)
        deadline = self._deadline(timeout)
        direct, delay = True, _DELAY
        while True:
            msg = self._read(key, None, deadline, direct=direct)
            behind = 0 if msg is None else msg.seq
            is_value = msg is not None and operation_of(msg.raw_headers) is KeyValueOperation.PUT
            value = change(msg.data if msg is not None and is_value else None)
            if value is None:
                return behind
            try:
                with self._named():
                    return Write(self._backing, key, value, deadline).store_behind(behind)
            except KeyWrongRevisionError:
                if deadline.expired:
                    raise
            self._backing.api.port.sleep(deadline.within(delay * random.random()))  # noqa: S311
            # Only the leader certainly has the entry that caused the refusal.
            direct, delay = False, min(2 * delay, _LONGEST_DELAY)

    def __setitem__(self, key: str, value: bytes) -> None:
        """Give a key a value, like :meth:`put`."""
        self.put(key, value)

    def __delitem__(self, key: str) -> None:
        """Take a key's value away, like :meth:`delete`."""
        self.delete(key)

    def purge_deletes(self, *, older_than: Seconds = _OLD, timeout: Seconds | None = None) -> int:
        """Remove what deleted keys have left: their history, and deletions older than
        ``older_than`` seconds (30 minutes); return how many entries that were.

        Younger deletions stay for the watchers that have not seen them. A key that is written again
        meanwhile keeps its new value. All keys are read, without values, and what is deleted is
        removed at once: after an error the next call has less to do. In a bucket with
        ``limit_marker_ttl`` give ``purge`` a ``ttl`` instead: then the server does it.

        Blocks up to ``timeout`` seconds for all of it; None: as long as something comes within the
        JetStream object's default. Raises BucketNotFoundError or another JetStreamError;
        ConfigError before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        limit = time.time() - to_seconds(older_than, "older_than")
        whole = None if timeout is None else Deadline(timeout)
        removed = 0
        start = len(self._backing.prefix)
        for messages in self._present([">"], *self._for_all(timeout), meta_only=True):
            for msg in messages:
                if operation_of(msg.raw_headers) is KeyValueOperation.PUT:
                    continue
                data = msg.metadata
                is_old = data.timestamp_ns / 1e9 <= limit
                below = data.stream_seq + 1 if is_old else data.stream_seq
                until = whole or self._deadline(None)
                with self._named():
                    removed += self._backing.purge(msg.subject[start:], below, until)
        return removed

    def __repr__(self) -> str:
        return f"KeyValue({self.bucket!r})"
