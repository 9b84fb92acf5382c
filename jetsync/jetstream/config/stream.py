"""How a stream is configured: ``StreamConfig`` and the objects inside it.

Fields have their NATS JSON names. Durations are seconds (``float`` or ``timedelta``), sizes are
bytes, and -1 means "no limit". "Server 2.10" says which server a field needs at least; no remark
means every server with JetStream has it. Source: nats-server 2.15, ADR-8, ADR-31, ADR-43, ADR-44,
ADR-49, ADR-50, ADR-51.
"""

# ruff: noqa: RUF009  (the calls in the class bodies return dataclasses.field, which ruff cannot see)

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from jetsync.errors import ConfigError
from jetsync.jetstream._wire import (
    Duration,
    Listing,
    MaybeDuration,
    WireEnum,
    WireObject,
    choice,
    flag,
    integer,
    listing,
    mapping,
    nested,
    seconds,
    text,
    time,
)
from jetsync.jetstream.config.stream_rules import check_combinations, check_open, check_overlap
from jetsync.protocol.subjects import check_name, check_publish_subject, check_subscribe_subject

__all__ = [
    "DiscardPolicy",
    "ExternalStream",
    "PersistMode",
    "Placement",
    "RePublish",
    "RetentionPolicy",
    "StorageType",
    "StoreCompression",
    "StreamConfig",
    "StreamConsumerLimits",
    "StreamConsumerSource",
    "StreamSource",
    "SubjectTransform",
]

_INT32_MAX = 2**31 - 1
_DESCRIPTION_MAX_BYTES = 4096
_METADATA_MAX_BYTES = 128 * 1024
_SHORTEST_WINDOW = 0.1


class RetentionPolicy(WireEnum):
    """When a stored message is removed."""

    LIMITS = "limits"
    """When a limit (age, count, size) is reached."""
    INTEREST = "interest"
    """When every consumer has acknowledged it."""
    WORKQUEUE = "workqueue"
    """When the one consumer of its subject has acknowledged it."""


class DiscardPolicy(WireEnum):
    """The effect of a full stream on a new message."""

    OLD = "old"
    """The oldest message makes room."""
    NEW = "new"
    """The new message is refused (``LimitsExceededError``)."""


class StorageType(WireEnum):
    """Where messages are kept."""

    FILE = "file"
    MEMORY = "memory"


class StoreCompression(WireEnum):
    """How a file store is compressed."""

    NONE = "none"
    S2 = "s2"


class PersistMode(WireEnum):
    """When a stored message is written to disk, relative to its acknowledgement."""

    DEFAULT = "default"
    """Before."""
    ASYNC = "async"
    """Maybe after: a killed server can lose acknowledged messages."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Placement(WireObject):
    """Which servers of a cluster should hold the stream."""

    cluster: str | None = text(None)
    """Name of the cluster."""
    tags: Listing[str] = listing(str)
    """Tags that each of the servers must have."""
    preferred: str | None = text(None)
    """Server that should lead. Only for moving a leader; servers refuse it in a stream's config.
    Server 2.11."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ExternalStream(WireObject):
    """Where to find a stream of another account or JetStream domain."""

    api: str = text(always=True)
    """Prefix of its API, such as ``$JS.hub.API``."""
    deliver: str = text(always=True)
    """Prefix of the subject on which its messages arrive; empty for the default."""

    def _check(self) -> None:
        if not self.api:
            raise ConfigError("ExternalStream.api is missing: give the prefix of the other API")
        check_field("ExternalStream.api", check_publish_subject, self.api)
        if self.deliver:
            check_field("ExternalStream.deliver", check_publish_subject, self.deliver)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SubjectTransform(WireObject):
    """A rule that renames subjects, such as ``orders.*`` to ``o.{{wildcard(1)}}``."""

    src: str = text(always=True)
    """Subjects the rule applies to; empty for all."""
    dest: str = text(always=True)
    """The new subject."""

    def _check(self) -> None:
        if self.src:
            check_field("SubjectTransform.src", check_subscribe_subject, self.src)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RePublish(WireObject):
    """A rule by which the server publishes stored messages again, on core NATS."""

    src: str | None = text(None)
    """Subjects it applies to; all of them by default."""
    dest: str = text(always=True)
    """Where they go; may refer to the tokens of ``src``. Must not lead back into the stream."""
    headers_only: bool = flag()
    """Leave the payload out and send its size as the header ``Nats-Msg-Size``."""

    def _check(self) -> None:
        if self.src:
            check_field("RePublish.src", check_subscribe_subject, self.src)
        if not self.dest:
            raise ConfigError("RePublish.dest is missing: give the subject to publish to")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class StreamConsumerLimits(WireObject):
    """Limits and defaults for the consumers of a stream. Server 2.10."""

    inactive_threshold: Duration = seconds(0.0)
    """Longest and default ``inactive_threshold`` of its consumers, in seconds; 0 for none."""
    max_ack_pending: int = integer(0, least=-1)
    """Highest and default ``max_ack_pending`` of its consumers; 0 for none."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class StreamConsumerSource(WireObject):
    """A durable consumer of the other stream through which it is copied. Server 2.14."""

    name: str | None = text(None)
    """Name of that consumer; its ack policy has to be ``flow_control``."""
    deliver_subject: str | None = text(None)
    """Its deliver subject."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class StreamSource(WireObject):
    """Another stream that a mirror copies, or that a stream takes messages from."""

    name: str = text(always=True)
    """Name of the other stream."""
    opt_start_seq: int | None = integer(None)
    """Begin at this sequence of the other stream; from its start by default."""
    opt_start_time: datetime | None = time()
    """Begin at the first message not older than this (with time zone)."""
    filter_subject: str | None = text(None)
    """Take only these subjects."""
    subject_transforms: Listing[SubjectTransform] = listing(SubjectTransform)
    """Take only the subjects of these rules, renamed. Excludes ``filter_subject``. Server 2.10."""
    external: ExternalStream | None = nested(ExternalStream, optional=True)
    """Where the other stream is, if not in this account and domain."""
    domain: str | None = text(None)
    """Short for ``external`` with the API of a JetStream domain of this account; becomes that."""
    consumer: StreamConsumerSource | None = nested(StreamConsumerSource, optional=True)
    """Durable consumer to copy through; an unnamed one by default. Server 2.14."""

    @property
    def opt_start_time_ns(self) -> int | None:
        """``opt_start_time`` in nanoseconds since 1970."""
        return self._time_ns("opt_start_time")

    def _check(self) -> None:
        if not self.name:
            raise ConfigError("StreamSource.name is missing: name the other stream")
        check_field("StreamSource.name", lambda name: check_name("stream", name), self.name)
        if self.filter_subject:
            check_field("StreamSource.filter_subject", check_subscribe_subject, self.filter_subject)
        if self.filter_subject and self.subject_transforms:
            raise ConfigError(
                "StreamSource.filter_subject excludes subject_transforms: a transform filters too"
            )
        if self.opt_start_seq and self.opt_start_time:
            raise ConfigError("StreamSource.opt_start_seq excludes opt_start_time: give one")
        if self.domain:
            if self.external is not None:
                raise ConfigError("StreamSource.domain excludes external: give one")
            check_field("StreamSource.domain", lambda name: check_name("domain", name), self.domain)
            external = ExternalStream(api=f"$JS.{self.domain}.API")
            object.__setattr__(self, "external", external)
            object.__setattr__(self, "domain", None)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class StreamConfig(WireObject):
    """The configuration of a stream. Frozen; ``dataclasses.replace`` gives a changed copy.

    Raises ``ConfigError``, naming the field, for what the server would certainly refuse.
    """

    name: str = text(always=True)
    """Name, at most 255 bytes, without spaces and ``. * > / \\``. Cannot be changed."""
    description: str | None = text(None)
    """Its purpose as a text of at most 4096 bytes. Server 2.3.3."""
    subjects: Listing[str] = listing(str)
    """Subjects it stores, wildcards allowed; its own name by default. Not for mirrors."""
    retention: RetentionPolicy | str = choice(RetentionPolicy.LIMITS)
    """When messages are removed. To or from ``workqueue`` it cannot be changed."""
    max_consumers: int = integer(-1, least=-1)
    """Most consumers at a time."""
    max_msgs: int = integer(-1, least=-1)
    """Most messages."""
    max_bytes: int = integer(-1, least=-1)
    """Most bytes, with headers and bookkeeping. Some accounts require it."""
    max_age: Duration = seconds(0.0)
    """How long a message is kept, in seconds, at least 0.1; 0 for ever."""
    max_msgs_per_subject: int = integer(-1, least=-1)
    """Most messages per subject. Server 2.3."""
    max_msg_size: int = integer(-1, least=-1, most=_INT32_MAX)
    """Most bytes of one message, headers included."""
    discard: DiscardPolicy | str = choice(DiscardPolicy.OLD)
    """Which message gives way when a limit is reached."""
    storage: StorageType | str = choice(StorageType.FILE)
    """Where messages are kept. Cannot be changed."""
    num_replicas: int = integer(1, least=1, most=5)
    """How many servers of a cluster hold it, 1 to 5; an odd number is best."""
    no_ack: bool = flag()
    """Give no acknowledgements: publishers then never know whether a message was stored."""
    duplicate_window: MaybeDuration = seconds(None)
    """How long message ids are remembered, in seconds, at least 0.1 and at most ``max_age``.
    The server takes 2 minutes or, if less, ``max_age``."""
    placement: Placement | None = nested(Placement, optional=True)
    """Which servers should hold it."""
    mirror: StreamSource | None = nested(StreamSource, optional=True)
    """The stream of which this is a copy. Cannot be changed, only removed."""
    sources: Listing[StreamSource] = listing(StreamSource)
    """Streams from which messages are taken in addition to ``subjects``."""
    compression: StoreCompression | str = choice(StoreCompression.NONE)
    """Compression of the file store. Server 2.10."""
    first_seq: int = integer(0)
    """Sequence of the first message; 0 leaves it at 1. Server 2.10."""
    subject_transform: SubjectTransform | None = nested(SubjectTransform, optional=True)
    """Rename subjects before messages are stored. Server 2.10."""
    republish: RePublish | None = nested(RePublish, optional=True)
    """Publish messages again once they are stored. Server 2.8.3."""
    allow_direct: bool = flag()
    """Let every replica answer direct gets. Server 2.9."""
    mirror_direct: bool = flag()
    """Let a mirror answer direct gets for its origin. Server 2.9."""
    discard_new_per_subject: bool = flag()
    """Apply ``discard="new"`` to ``max_msgs_per_subject``; needs both. Server 2.9.1."""
    sealed: bool = flag()
    """Allow no change of the messages. Cannot be undone. Server 2.6.2."""
    deny_delete: bool = flag()
    """Refuse to delete single messages. Cannot be undone. Server 2.6.2."""
    deny_purge: bool = flag()
    """Refuse to purge. Cannot be undone. Server 2.6.2."""
    allow_rollup_hdrs: bool = flag()
    """Obey ``Nats-Rollup``: a message may replace all earlier ones. Server 2.6.2."""
    consumer_limits: StreamConsumerLimits = nested(StreamConsumerLimits)
    """Limits and defaults for its consumers. Server 2.10."""
    allow_msg_ttl: bool = flag()
    """Obey ``Nats-TTL``: a message may have its own age. Cannot be undone. Server 2.11."""
    subject_delete_marker_ttl: Duration = seconds(0.0)
    """Leave a marker, for so many seconds (at least 1), when the last message of a subject ages
    out; 0 for none. Turns on ``allow_msg_ttl`` and ``allow_rollup_hdrs``. Server 2.11."""
    allow_msg_counter: bool = flag()
    """Make the stream one of counters (``Nats-Incr``). Cannot be changed. Server 2.12."""
    allow_atomic: bool = flag()
    """Allow batches that are stored whole or not at all. Server 2.12."""
    allow_msg_schedules: bool = flag()
    """Obey ``Nats-Schedule``: messages published later. Cannot be undone. Server 2.12."""
    persist_mode: PersistMode | str = choice(PersistMode.DEFAULT)
    """When messages reach the disk. Cannot be changed. Server 2.12."""
    allow_batched: bool = flag()
    """Allow fast batch publishing. Server 2.14."""
    metadata: Mapping[str, str] = mapping(str)
    """Your own names and values, 128 KiB in all; the server adds some that begin with ``_nats.``.
    Server 2.10."""

    def _check(self) -> None:
        if not self.name:
            raise ConfigError("StreamConfig.name is missing: every stream needs a name")
        check_field("StreamConfig.name", lambda name: check_name("stream", name), self.name)
        check_texts("StreamConfig", self.description, self.metadata)
        for subject in self.subjects:
            check_field("StreamConfig.subjects", check_subscribe_subject, subject)
        self._check_windows()
        check_combinations(self)
        self._check_needs()
        check_overlap("StreamConfig.subjects", self.subjects)
        if not self.no_ack:
            check_open("StreamConfig.subjects", self.subjects)
        self._check_origins()

    def _check_windows(self) -> None:
        window = self.duplicate_window
        if 0 < self.max_age < _SHORTEST_WINDOW:
            raise ConfigError(f"StreamConfig.max_age must be at least 0.1 s, got {self.max_age}")
        if window is not None and 0 < window < _SHORTEST_WINDOW:
            raise ConfigError(f"StreamConfig.duplicate_window must be at least 0.1 s, got {window}")
        if window is not None and 0 < self.max_age < window:
            raise ConfigError(
                f"StreamConfig.duplicate_window ({window} s) must not be longer than max_age "
                f"({self.max_age} s)"
            )
        if 0 < self.subject_delete_marker_ttl < 1:
            raise ConfigError(
                "StreamConfig.subject_delete_marker_ttl must be at least 1 s, got "
                f"{self.subject_delete_marker_ttl}"
            )

    def _check_needs(self) -> None:
        if self.discard_new_per_subject and self.max_msgs_per_subject < 1:
            raise ConfigError("StreamConfig.discard_new_per_subject needs max_msgs_per_subject")
        if self.persist_mode == "async" and self.allow_atomic:
            raise ConfigError("StreamConfig.persist_mode 'async' excludes allow_atomic")
        if self.mirror_direct and self.mirror is None:
            raise ConfigError("StreamConfig.mirror_direct needs mirror")
        if self.placement is not None and self.placement.preferred:
            raise ConfigError(
                "StreamConfig.placement must not have preferred: it is for moving a leader"
            )

    def _check_origins(self) -> None:
        mirror = [] if self.mirror is None else [("mirror", self.mirror)]
        for field, source in [*mirror, *(("sources", one) for one in self.sources)]:
            if source.name == self.name and source.external is None:
                raise ConfigError(f"StreamConfig.{field} names the stream itself")
        plain = Counter(
            (one.name, one.filter_subject, str(one.external), str(one.subject_transforms))
            for one in self.sources
        )
        if any(times > 1 for times in plain.values()):
            raise ConfigError("StreamConfig.sources has the same source more than once")


def check_texts(kind: str, description: str | None, metadata: Mapping[str, str]) -> None:
    """Refuse a description or metadata that is too long for the server."""
    if description and len(description.encode()) > _DESCRIPTION_MAX_BYTES:
        raise ConfigError(f"{kind}.description must have at most {_DESCRIPTION_MAX_BYTES} bytes")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())
    if size > _METADATA_MAX_BYTES:
        raise ConfigError(f"{kind}.metadata must have at most {_METADATA_MAX_BYTES} bytes in all")


def check_field(where: str, check: Callable[[str], str], value: str) -> None:
    try:
        check(value)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
