"""The key-value calls of ``JetStream``: making, finding, changing and listing buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds
from jetsync.errors import (
    BucketExistsError,
    KeyValueError,
    StreamNameInUseError,
    StreamNotFoundError,
)
from jetsync.jetstream._wire import build
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.kv.backing import KeyValueBacking, gone
from jetsync.kv.config import KeyValueConfig, config_of, stream_config
from jetsync.kv.names import STREAM_PREFIX, check_bucket, stream_of, subjects
from jetsync.kv.status import KeyValueStatus
from jetsync.kv.store import KeyValue

if TYPE_CHECKING:
    from jetsync.jetstream import JetStream

__all__ = ["create", "create_or_update", "delete", "names", "open_bucket", "statuses", "update"]


def open_bucket(js: JetStream, bucket: str, deadline: Deadline) -> KeyValue:
    """See ``JetStream.key_value``."""
    info = _find(js, bucket, deadline)
    if not _is_bucket(info):
        raise KeyValueError(
            f"stream {stream_of(bucket)!r} is no bucket: it has no max_msgs_per_subject",
            bucket=bucket,
        )
    backing = KeyValueBacking(js, info.config)
    backing.check_origin(deadline)
    return KeyValue(backing)


def create(
    js: JetStream, config: KeyValueConfig | None, fields: Mapping[str, Any], deadline: Deadline
) -> KeyValue:
    """See ``JetStream.create_key_value``."""
    wanted = build(KeyValueConfig, config, fields)
    bucket = stream_config(wanted)
    backing = KeyValueBacking(js, bucket)
    backing.check_origin(deadline)
    try:
        js.create_stream(bucket, timeout=deadline.remaining())
    except StreamNameInUseError as error:
        raise BucketExistsError(
            f"bucket {wanted.bucket!r} exists with another configuration: update it, or take "
            "another name",
            bucket=wanted.bucket,
        ) from error
    return KeyValue(backing)


def update(
    js: JetStream, config: KeyValueConfig | None, fields: Mapping[str, Any], deadline: Deadline
) -> KeyValue:
    """See ``JetStream.update_key_value``."""
    bucket = build(KeyValueConfig, config, fields).bucket
    found = _find(js, bucket, deadline).config
    wanted = build(KeyValueConfig, config_of(found) if config is None else config, fields)
    stream = js.update_stream(stream_config(wanted, found), timeout=deadline.remaining())
    return KeyValue(KeyValueBacking(js, stream.cached_info.config))


def create_or_update(
    js: JetStream, config: KeyValueConfig | None, fields: Mapping[str, Any], deadline: Deadline
) -> KeyValue:
    """See ``JetStream.create_or_update_key_value``."""
    wanted = build(KeyValueConfig, config, fields)
    try:
        return create(js, wanted, {}, deadline)
    except BucketExistsError:
        return update(js, wanted, {}, deadline)


def delete(js: JetStream, bucket: str, timeout: Seconds | None) -> None:
    """See ``JetStream.delete_key_value``."""
    try:
        js.delete_stream(stream_of(check_bucket(bucket)), timeout=timeout)
    except StreamNotFoundError as error:
        raise gone(bucket) from error


def statuses(js: JetStream, timeout: Seconds | None) -> Iterator[KeyValueStatus]:
    """See ``JetStream.key_value_buckets``."""
    seen: set[str] = set()
    for info in js.streams(subjects("*") + ">", timeout=timeout):
        seen.add(info.config.name)
        if info.config.name.startswith(STREAM_PREFIX) and _is_bucket(info):
            yield KeyValueStatus(info)
    # Mirrors have no subjects, so the filter leaves them out; they are found by name.
    for bucket in names(js, timeout):
        if stream_of(bucket) not in seen:
            with suppress(StreamNotFoundError):  # deleted since then
                info = js.stream(stream_of(bucket), timeout=timeout).cached_info
                if _is_bucket(info):
                    yield KeyValueStatus(info)


def names(js: JetStream, timeout: Seconds | None) -> Iterator[str]:
    """See ``JetStream.key_value_names``."""
    # No filter by subject: mirrors have no subjects.
    for name in js.stream_names(timeout=timeout):
        if name.startswith(STREAM_PREFIX):
            yield name.removeprefix(STREAM_PREFIX)


def _find(js: JetStream, bucket: str, deadline: Deadline) -> StreamInfo:
    name = stream_of(check_bucket(bucket))
    try:
        return js.stream(name, timeout=deadline.remaining()).cached_info
    except StreamNotFoundError as error:
        raise gone(bucket) from error


def _is_bucket(info: StreamInfo) -> bool:
    return info.config.max_msgs_per_subject >= 1
