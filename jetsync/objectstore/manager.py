"""The object store calls of ``JetStream``: making, finding, changing and listing buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds
from jetsync.errors import (
    ObjectStoreExistsError,
    StreamNameInUseError,
    StreamNotFoundError,
)
from jetsync.jetstream import Stream
from jetsync.jetstream._wire import build
from jetsync.objectstore.backing import gone
from jetsync.objectstore.config import ObjectStoreConfig, config_of, stream_config
from jetsync.objectstore.names import STREAM_PREFIX, check_bucket, stream_of, subjects
from jetsync.objectstore.status import ObjectStoreStatus
from jetsync.objectstore.store import ObjectStore

if TYPE_CHECKING:
    from jetsync.jetstream import JetStream

__all__ = ["create", "create_or_update", "delete", "names", "open_store", "statuses", "update"]


def open_store(js: JetStream, bucket: str, deadline: Deadline) -> ObjectStore:
    """See ``JetStream.object_store``."""
    return ObjectStore(js, _find(js, bucket, deadline))


def create(
    js: JetStream, config: ObjectStoreConfig | None, fields: Mapping[str, Any], deadline: Deadline
) -> ObjectStore:
    """See ``JetStream.create_object_store``."""
    wanted = build(ObjectStoreConfig, config, fields)
    try:
        stream = js.create_stream(stream_config(wanted), timeout=deadline.remaining())
    except StreamNameInUseError as error:
        raise ObjectStoreExistsError(
            f"bucket {wanted.bucket!r} exists with another configuration: update it, or take "
            "another name",
            bucket=wanted.bucket,
        ) from error
    return ObjectStore(js, stream)


def update(
    js: JetStream, config: ObjectStoreConfig | None, fields: Mapping[str, Any], deadline: Deadline
) -> ObjectStore:
    """See ``JetStream.update_object_store``."""
    bucket = build(ObjectStoreConfig, config, fields).bucket
    found = _find(js, bucket, deadline).cached_info.config
    wanted = build(ObjectStoreConfig, config_of(found) if config is None else config, fields)
    stream = js.update_stream(stream_config(wanted, found), timeout=deadline.remaining())
    return ObjectStore(js, stream)


def create_or_update(
    js: JetStream, config: ObjectStoreConfig | None, fields: Mapping[str, Any], deadline: Deadline
) -> ObjectStore:
    """See ``JetStream.create_or_update_object_store``."""
    wanted = build(ObjectStoreConfig, config, fields)
    try:
        return create(js, wanted, {}, deadline)
    except ObjectStoreExistsError:
        return update(js, wanted, {}, deadline)


def delete(js: JetStream, bucket: str, timeout: Seconds | None) -> None:
    """See ``JetStream.delete_object_store``."""
    try:
        js.delete_stream(stream_of(check_bucket(bucket)), timeout=timeout)
    except StreamNotFoundError as error:
        raise gone(bucket) from error


def statuses(js: JetStream, timeout: Seconds | None) -> Iterator[ObjectStoreStatus]:
    """See ``JetStream.object_stores``."""
    for info in js.streams(subjects("*") + "C.>", timeout=timeout):
        if info.config.name.startswith(STREAM_PREFIX):
            yield ObjectStoreStatus(info)


def names(js: JetStream, timeout: Seconds | None) -> Iterator[str]:
    """See ``JetStream.object_store_names``."""
    for name in js.stream_names(subjects("*") + "C.>", timeout=timeout):
        if name.startswith(STREAM_PREFIX):
            yield name.removeprefix(STREAM_PREFIX)


def _find(js: JetStream, bucket: str, deadline: Deadline) -> Stream:
    try:
        return js.stream(stream_of(check_bucket(bucket)), timeout=deadline.remaining())
    except StreamNotFoundError as error:
        raise gone(bucket) from error
