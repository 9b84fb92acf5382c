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
from jetsync.objectstore.found import Found, read_found
from jetsync.objectstore.info import ObjectInfo, load, parse
from jetsync.objectstore.place import Place, gone

__all__ = ["FoundWatcher", "ObjectWatcher", "begin"]


def begin(place: Place, policy: DeliverPolicy, deadline: Deadline) -> tuple[OrderedConsumer, int]:
    """Begin to read what is said about names; returns the reader, and the sequence of the last
    message that is there. Blocks. Raises ObjectStoreNotFoundError."""
    try:
        ordered = place.js.ordered_consumer(
            place.stream.name,
            filter_subjects=place.every_meta,
            deliver_policy=policy,
            timeout=deadline.remaining(),
        )
        return ordered, place.last_change(deadline)
    except StreamNotFoundError as error:
        raise gone(place.bucket) from error


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
        self, place: Place, ordered: OrderedConsumer, *, end: int, ignore_deletes: bool
    ) -> None:
        super().__init__(place.js, place.bucket, ordered, end)
        self._place = place
        self._ignore_deletes = ignore_deletes

    def _read(self, msg: JetStreamMsg) -> ObjectInfo | None:
        bucket = self._place.bucket
        try:
            info = load(parse(msg.data, bucket), bucket, msg.metadata.timestamp_ns)
        except ObjectMetaError as error:
            self._place.api.port.report(error)
            return None
        return None if self._ignore_deletes and info.deleted else info

    def _last(self, deadline: Deadline) -> int:
        return self._place.last_change(deadline)

    def _gone(self) -> ObjectStoreNotFoundError:
        return gone(self._place.bucket)


class FoundWatcher(BucketWatcher[Found]):
    """The same for this room: messages as far as they can be read."""

    def __init__(self, place: Place, ordered: OrderedConsumer, end: int) -> None:
        super().__init__(place.js, place.bucket, ordered, end)
        self._place = place

    def _read(self, msg: JetStreamMsg) -> Found:
        return found_in(self._place, msg)

    def _last(self, deadline: Deadline) -> int:
        return self._place.last_change(deadline)

    def _gone(self) -> ObjectStoreNotFoundError:
        return gone(self._place.bucket)


def found_in(place: Place, msg: JetStreamMsg) -> Found:
    """Read a message about a name that was delivered, as far as it can be read."""
    metadata = msg.metadata
    return read_found(metadata.stream_seq, msg.data, place.bucket, metadata.timestamp_ns)
