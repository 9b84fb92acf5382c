"""ObjectWatcher: the descriptions of a bucket's objects as they are written (ADR-20)."""

from __future__ import annotations

from jetsync._deadline import Deadline
from jetsync.errors import (
    ObjectMetaError,
    ObjectStoreNotFoundError,
    StreamNotFoundError,
)
from jetsync.jetstream import JetStreamMsg, OrderedConsumer
from jetsync.jetstream.buckets.watcher import BucketWatcher
from jetsync.jetstream.config.consumer import DeliverPolicy
from jetsync.objectstore.backing import ObjectBacking, gone
from jetsync.objectstore.found import Found, read_found
from jetsync.objectstore.info import ObjectInfo, load, parse

__all__ = ["FoundWatcher", "ObjectWatcher", "begin"]


def begin(
    backing: ObjectBacking, policy: DeliverPolicy, deadline: Deadline
) -> tuple[OrderedConsumer, int]:
    """Begin to read descriptions; returns the reader, and the sequence of the last one that is
    there. Blocks. Raises ObjectStoreNotFoundError."""
    try:
        ordered = backing.js.ordered_consumer(
            backing.stream.name,
            filter_subjects=backing.every_meta,
            deliver_policy=policy,
            timeout=deadline.remaining(),
        )
        return ordered, backing.last_change(deadline)
    except StreamNotFoundError as error:
        raise gone(backing.bucket) from error


class ObjectWatcher(BucketWatcher[ObjectInfo]):
    """An endless iterator over changes of objects. Made by ``ObjectStore.watch``.

    First come the initial ones, those that were there when the watch began; :meth:`initial`
    iterates over them alone. Then it blocks until an object is put, changed or deleted. An object
    that is replaced before it is read comes as its replacement. A description that cannot be read
    is left out and reported to the connection's ``on_error`` (ObjectMetaError).

    For one thread at a time (misuse raises ConfigError); :meth:`stop` may be called by any. As a
    context manager it stops at the end.
    """

    def __init__(
        self, backing: ObjectBacking, ordered: OrderedConsumer, *, end: int, ignore_deletes: bool
    ) -> None:
        super().__init__(backing.js, backing.bucket, ordered, end)
        self._backing = backing
        self._ignore_deletes = ignore_deletes

    def _read(self, msg: JetStreamMsg) -> ObjectInfo | None:
        bucket = self._backing.bucket
        try:
            info = load(parse(msg.data, bucket), bucket, msg.metadata.timestamp_ns)
        except ObjectMetaError as error:
            self._backing.api.port.report(error)
            return None
        return None if self._ignore_deletes and info.deleted else info

    def _last(self, deadline: Deadline) -> int:
        return self._backing.last_change(deadline)

    def _gone(self) -> ObjectStoreNotFoundError:
        return gone(self._backing.bucket)


class FoundWatcher(BucketWatcher[Found]):
    """An iterator over the messages of descriptions, as far as they can be read; for this room."""

    def __init__(self, backing: ObjectBacking, ordered: OrderedConsumer, end: int) -> None:
        super().__init__(backing.js, backing.bucket, ordered, end)
        self._backing = backing

    def _read(self, msg: JetStreamMsg) -> Found:
        return found_in(self._backing, msg)

    def _last(self, deadline: Deadline) -> int:
        return self._backing.last_change(deadline)

    def _gone(self) -> ObjectStoreNotFoundError:
        return gone(self._backing.bucket)


def found_in(backing: ObjectBacking, msg: JetStreamMsg) -> Found:
    """Read a message about a name that was delivered, as far as it can be read."""
    metadata = msg.metadata
    return read_found(metadata.stream_seq, msg.data, backing.bucket, metadata.timestamp_ns)
