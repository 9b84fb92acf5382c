"""KeyValueConfig: the configuration of a bucket, and that of its stream (ADR-8, ADR-48, ADR-57)."""

# ruff: noqa: RUF009  (the calls in the class body return dataclasses.field, which ruff cannot see)

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict

from jetsync._deadline import Seconds
from jetsync.errors import ConfigError
from jetsync.jetstream._wire import (
    Duration,
    Listing,
    WireObject,
    choice,
    flag,
    integer,
    listing,
    mapping,
    nested,
    seconds,
    text,
)
from jetsync.jetstream.config.stream import (
    DiscardPolicy,
    Placement,
    RePublish,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)
from jetsync.kv.names import STREAM_PREFIX, check_bucket, stream_of, subjects

__all__ = ["KeyValueConfig", "KeyValueFields", "config_of", "stream_config"]

_MAX_HISTORY = 64
_LONGEST_WINDOW = 120.0
_INT32_MAX = 2**31 - 1


class KeyValueFields(TypedDict, total=False):
    """The fields of ``KeyValueConfig``, as keywords of the calls that take them."""

    bucket: str | None
    description: str | None
    history: int | None
    ttl: Seconds | None
    max_value_size: int | None
    max_bytes: int | None
    storage: StorageType | Literal["file", "memory"] | None
    replicas: int | None
    placement: Placement | Mapping[str, Any] | None
    republish: RePublish | Mapping[str, Any] | None
    mirror: StreamSource | Mapping[str, Any] | None
    mirror_direct: bool | None
    sources: Iterable[StreamSource | Mapping[str, Any]] | None
    compression: bool | None
    limit_marker_ttl: Seconds | None
    metadata: Mapping[str, str] | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class KeyValueConfig(WireObject):
    """The configuration of a bucket. Frozen; ``dataclasses.replace`` gives a changed copy.

    Raises ``ConfigError`` for invalid values, naming the field.
    """

    bucket: str = text(always=True)
    """Name: letters, digits, ``-`` and ``_``. Cannot be changed."""
    description: str | None = text(None)
    """Its purpose as a text of at most 4096 bytes."""
    history: int = integer(1, least=1)
    """How many revisions are kept of each key, 1 to 64. Streams that were made by other means may
    have more; such a number is kept by an update."""
    ttl: Duration = seconds(0.0)
    """How long a revision is kept, in seconds, at least 0.1; 0 for ever."""
    max_value_size: int = integer(-1, least=-1, most=_INT32_MAX)
    """Most bytes of one value, together with its headers (deletions and conditions have some)."""
    max_bytes: int = integer(-1, least=-1)
    """Most bytes of the whole bucket. Some accounts require it. When it is full, puts are refused
    (``LimitsExceededError``)."""
    storage: StorageType | str = choice(StorageType.FILE)
    """Where it is kept. Cannot be changed."""
    replicas: int = integer(1, least=1, most=5)
    """How many servers of a cluster hold it, 1 to 5; an odd number is best."""
    placement: Placement | None = nested(Placement, optional=True)
    """Which servers should hold it."""
    republish: RePublish | None = nested(RePublish, optional=True)
    """Publish entries again on core NATS."""
    mirror: StreamSource | None = nested(StreamSource, optional=True)
    """The bucket of which this is a copy (``name``, with or without ``KV_``), maybe of another
    domain (``external``). Reads come from the copy, writes go to the origin. Cannot be changed."""
    mirror_direct: bool = flag(True)
    """Whether this copy, if it is one, also answers reads of its origin that may come from any
    server (ADR-8). This library does not take such an answer for one of the origin; other clients
    do, and then read what the copy has at that moment. The server turns it on by itself for an
    origin of the same account (2.15)."""
    sources: Listing[StreamSource] = listing(StreamSource)
    """Buckets whose entries are taken in too; their keys keep their names. With
    ``subject_transforms`` of its own a source is used as it is and may be any stream."""
    compression: bool = flag()
    """Compress the file store."""
    limit_marker_ttl: Duration = seconds(0.0)
    """Keep a marker for so many seconds (at least 1) when a key ages out, so that watchers hear of
    it, and allow ``ttl`` for single keys. Cannot be turned off: 0 leaves it as it is. Server 2.11.
    With a history above 1 no key lives shorter than this."""
    metadata: Mapping[str, str] = mapping(str)
    """Your own names and values; the server adds some that begin with ``_nats.``."""

    def _check(self) -> None:
        if not self.bucket:
            raise ConfigError("KeyValueConfig.bucket is missing: every bucket needs a name")
        check_bucket(self.bucket)
        if 0 < self.ttl < 0.1:
            raise ConfigError(f"KeyValueConfig.ttl must be at least 0.1 s, got {self.ttl}")
        if 0 < self.limit_marker_ttl < 1:
            raise ConfigError(
                f"KeyValueConfig.limit_marker_ttl must be at least 1 s, got {self.limit_marker_ttl}"
            )
        if self.mirror is not None and (self.sources or self.limit_marker_ttl):
            other = "sources" if self.sources else "limit_marker_ttl"
            raise ConfigError(f"KeyValueConfig.mirror excludes {other}: a mirror is a plain copy")


def stream_config(config: KeyValueConfig, found: StreamConfig | None = None) -> StreamConfig:
    """The stream of a bucket: a new one, or the one ``found`` with the bucket's settings changed.

    Fields of the stream that a bucket's configuration does not have keep their values.
    Raises ConfigError.
    """
    mirror = None
    if config.mirror is not None:
        mirror = dataclasses.replace(config.mirror, name=_origin(config.mirror))
    fields: dict[str, Any] = {
        "description": config.description,
        "max_msgs_per_subject": config.history,
        "max_age": config.ttl,
        "duplicate_window": _window(config.ttl),
        "max_msg_size": config.max_value_size,
        "max_bytes": config.max_bytes,
        "storage": config.storage,
        "num_replicas": config.replicas,
        "placement": config.placement,
        "republish": config.republish,
        "mirror": mirror,
        "mirror_direct": mirror is not None and config.mirror_direct,
        "sources": [_source(config.bucket, source) for source in config.sources],
        "compression": StoreCompression.S2 if config.compression else StoreCompression.NONE,
        "metadata": config.metadata,
    }
    if config.limit_marker_ttl:
        fields["allow_msg_ttl"] = True
        fields["subject_delete_marker_ttl"] = config.limit_marker_ttl
    if config.history > max(_MAX_HISTORY, 0 if found is None else found.max_msgs_per_subject):
        raise ConfigError(
            f"KeyValueConfig.history must be between 1 and {_MAX_HISTORY}, got {config.history}"
        )
    window = found.duplicate_window if found is not None else None
    if found is not None and window and window != _window(found.max_age):
        # Set by another client: a bucket's configuration has no such field, only its ttl limits it.
        fields["duplicate_window"] = min(window, config.ttl or window)
    own = [] if mirror is not None else [subjects(config.bucket) + ">"]
    if found is not None:
        return dataclasses.replace(found, subjects=found.subjects or own, **fields)
    return StreamConfig(
        name=stream_of(config.bucket),
        subjects=own,
        discard=DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        deny_delete=True,
        allow_direct=True,
        **fields,
    )


def _origin(source: StreamSource) -> str:
    """The stream that a mirror or source names by its bucket."""
    return source.name if source.name.startswith(STREAM_PREFIX) else stream_of(source.name)


def _source(bucket: str, source: StreamSource) -> StreamSource:
    if source.subject_transforms:
        return source
    name = _origin(source)
    rename = SubjectTransform(
        src=subjects(name.removeprefix(STREAM_PREFIX)) + ">", dest=subjects(bucket) + ">"
    )
    return dataclasses.replace(source, name=name, subject_transforms=[rename])


def _window(ttl: float) -> float:
    """The default duplicate window of a bucket."""
    return min(ttl or _LONGEST_WINDOW, _LONGEST_WINDOW)


def config_of(stream: StreamConfig) -> KeyValueConfig:
    """The configuration of a bucket, read from that of its stream. Does not block."""
    read = {
        "bucket": stream.name.removeprefix(STREAM_PREFIX),
        "description": stream.description,
        "history": stream.max_msgs_per_subject,
        "ttl": stream.max_age,
        "max_value_size": stream.max_msg_size,
        "max_bytes": stream.max_bytes,
        "storage": stream.storage,
        "replicas": stream.num_replicas,
        "placement": stream.placement,
        "republish": stream.republish,
        "mirror": stream.mirror,
        "mirror_direct": stream.mirror_direct or stream.mirror is None,
        "sources": stream.sources,
        "compression": stream.compression != StoreCompression.NONE,
        "limit_marker_ttl": stream.subject_delete_marker_ttl,
        "metadata": stream.metadata,
    }
    return KeyValueConfig(**read)  # type: ignore[arg-type]
