"""Listing a bucket: its keys, their entries and their history, as they are now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync.jetstream import JetStreamMsg
from jetsync.jetstream.buckets.listing import present
from jetsync.kv.entry import Entry, KeyValueOperation, from_delivery, operation_of
from jetsync.kv.names import check_any_key, check_patterns
from jetsync.kv.watching import Watching

__all__ = ["Listing"]


class Listing(Watching):
    """The calls of ``KeyValue`` that go through many keys: each begins a watch, and ends it behind
    the last entry that is there."""

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
            for entry in self._entries(self._present(patterns, *self._for_each(timeout)))
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
        present = self._present(patterns, *self._for_all(timeout), include_history=True)
        entries = list(self._entries(present))
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
        present = self._present(patterns, *self._for_each(timeout), include_history=True)
        return self._entries(present)

    def _for_all(self, timeout: Seconds | None) -> tuple[Deadline | None, float]:
        """The time of a listing: ``timeout`` for all of it, or else a limit for each step."""
        return None if timeout is None else Deadline(timeout), self._backing.api.timeout

    def _for_each(self, timeout: Seconds | None) -> tuple[Deadline | None, float]:
        """The time of a listing that is iterated over: a limit for each step."""
        return None, self._backing.api.timeout if timeout is None else to_seconds(timeout)

    def _entries(self, present: Iterable[Sequence[JetStreamMsg]]) -> Iterator[Entry]:
        """Iterate over the entries that these messages are."""
        bucket, start = self.bucket, len(self._backing.prefix)
        for messages in present:
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


def _filters(filters: str | Sequence[str] | None) -> str | Sequence[str]:
    return ">" if filters is None else filters
