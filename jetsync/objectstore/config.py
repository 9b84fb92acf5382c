"""ObjectStoreConfig: the configuration of a bucket, and that of its stream (ADR-20)."""

# ruff: noqa: RUF009  (the calls in the class body return dataclasses.field, which ruff cannot see)

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from jetsync._deadline import Seconds
from jetsync.errors import ConfigError
from jetsync.jetstream._wire import (
    Duration,
    WireObject,
    choice,
    flag,
    integer,
    mapping,
    nested,
    seconds,
    text,
)
from jetsync.jetstream.config.stream import (
    DiscardPolicy,
    Placement,
    StorageType,
    StoreCompression,
    StreamConfig,
)
from jetsync.objectstore.names import STREAM_PREFIX, check_bucket, stream_of, subjects

__all__ = ["ObjectStoreConfig", "ObjectStoreFields", "config_of", "stream_config"]

_LONGEST_WINDOW = 120.0


class ObjectStoreFields(TypedDict, total=False):
    """The fields of ``ObjectStoreConfig``, as keywords of the calls that take them."""

    bucket: str | None
    description: str | None
    ttl: Seconds | None
    max_bytes: int | None
    storage: StorageType | Literal["file", "memory"] | None
    replicas: int | None
    placement: Placement | Mapping[str, Any] | None
    compression: bool | None
    allow_atomic: bool | None
    metadata: Mapping[str, str] | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ObjectStoreConfig(WireObject):
    """The configuration of a bucket of objects. Frozen; ``dataclasses.replace`` changes a copy.

    Raises ``ConfigError`` for invalid values, naming the field.
    """

    bucket: str = text(always=True)
    """Name: letters, digits, ``-`` and ``_``. Cannot be changed."""
    description: str | None = text(None)
    """Its purpose as a text of at most 4096 bytes."""
    ttl: Duration = seconds(0.0)
    """How long an object is kept, in seconds, at least 0.1; 0 for ever."""
    max_bytes: int = integer(-1, least=-1)
    """Most bytes of the whole bucket. When it is full, puts are refused."""
    storage: StorageType | str = choice(StorageType.FILE)
    """Where it is kept. Cannot be changed."""
    replicas: int = integer(1, least=1, most=5)
    """How many servers of a cluster hold it, 1 to 5; an odd number is best."""
    placement: Placement | None = nested(Placement, optional=True)
    """Which servers should hold it."""
    compression: bool = flag()
    """Compress the file store."""
    allow_atomic: bool = flag()
    """Let a rename be one step for watchers and listings too. Cannot be turned off. Server 2.12."""
    metadata: Mapping[str, str] = mapping(str)
    """Your own names and values; the server adds some that begin with ``_nats.``."""

    def _check(self) -> None:
        if not self.bucket:
            raise ConfigError("ObjectStoreConfig.bucket is missing: every bucket needs a name")
        check_bucket(self.bucket)
        if 0 < self.ttl < 0.1:
            raise ConfigError(f"ObjectStoreConfig.ttl must be at least 0.1 s, got {self.ttl}")


def stream_config(config: ObjectStoreConfig, found: StreamConfig | None = None) -> StreamConfig:
    """The stream of a bucket: a new one, or the one ``found`` with the bucket's settings changed.

    Fields of the stream that a bucket's configuration does not have keep their values.
    """
    fields: dict[str, Any] = {
        "description": config.description,
        "max_age": config.ttl,
        "duplicate_window": _window(config.ttl),
        "max_bytes": config.max_bytes,
        "storage": config.storage,
        "num_replicas": config.replicas,
        "placement": config.placement,
        "compression": StoreCompression.S2 if config.compression else StoreCompression.NONE,
        "metadata": config.metadata,
    }
    window = found.duplicate_window if found is not None else None
    if found is not None and window and window != _window(found.max_age):
        # Set by another client: a bucket's configuration has no such field, only its ttl limits it.
        fields["duplicate_window"] = min(window, config.ttl or window)
    if config.allow_atomic:
        fields["allow_atomic"] = True
    if found is not None:
        return dataclasses.replace(found, **fields)
    return StreamConfig(
        name=stream_of(config.bucket),
        subjects=[subjects(config.bucket) + "C.>", subjects(config.bucket) + "M.>"],
        discard=DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        allow_direct=True,
        **fields,
    )


def _window(ttl: float) -> float:
    """The default duplicate window of a bucket."""
    return min(ttl or _LONGEST_WINDOW, _LONGEST_WINDOW)


def config_of(stream: StreamConfig) -> ObjectStoreConfig:
    """The configuration of a bucket, read from that of its stream. Does not block."""
    return ObjectStoreConfig(
        bucket=stream.name.removeprefix(STREAM_PREFIX),
        description=stream.description,
        ttl=stream.max_age,
        max_bytes=stream.max_bytes,
        storage=stream.storage,
        replicas=stream.num_replicas,
        placement=stream.placement,
        compression=stream.compression != StoreCompression.NONE,
        allow_atomic=stream.allow_atomic,
        metadata=stream.metadata,
    )
