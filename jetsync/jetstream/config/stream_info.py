"""The server's answers about a stream: its configuration, its state and its replicas.

Nothing here is sent to a server. Times are ``datetime`` in UTC with an ``_ns`` property beside
them, durations are ``float`` seconds. Source: nats-server 2.15, ``$JS.API.STREAM.INFO``.
"""

# ruff: noqa: RUF009  (the calls in the class bodies return dataclasses.field, which ruff cannot see)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from jetsync.jetstream._wire import (
    ZERO_TIME,
    Listing,
    MaybeDuration,
    WireObject,
    flag,
    integer,
    listing,
    mapping,
    nested,
    raw,
    seconds,
    text,
    time,
)
from jetsync.jetstream.config.stream import ExternalStream, StreamConfig, SubjectTransform

__all__ = [
    "APIErrorDetail",
    "ClusterInfo",
    "LostStreamData",
    "PeerInfo",
    "StreamAlternate",
    "StreamInfo",
    "StreamSourceInfo",
    "StreamState",
]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class LostStreamData(WireObject):
    """Messages that a damaged store has lost."""

    msgs: Listing[int] = listing(int)
    """Their sequences."""
    bytes: int = integer(0)
    """How many bytes they had."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class StreamState(WireObject):
    """How much a stream holds."""

    messages: int = integer(0)
    """Messages stored."""
    bytes: int = integer(0)
    """Bytes stored."""
    first_seq: int = integer(0)
    """Sequence of the first message; of an empty stream 0 or the one after ``last_seq``."""
    first_ts: datetime | None = time()
    """When the first message was stored; None if the stream never had one."""
    last_seq: int = integer(0)
    """Sequence of the last message ever stored."""
    last_ts: datetime | None = time()
    """When the last message was stored; None if the stream never had one."""
    num_subjects: int = integer(0)
    """Different subjects among the messages."""
    subjects: Mapping[str, int] = mapping(int)
    """Messages per subject, for the subjects that were asked for with ``subjects_filter``."""
    num_deleted: int = integer(0)
    """Messages removed between the first and the last."""
    deleted: Listing[int] = listing(int)
    """Their sequences, if they were asked for with ``deleted_details``."""
    lost: LostStreamData | None = nested(LostStreamData, optional=True)
    """The messages that a damaged store has lost."""
    consumer_count: int = integer(0)
    """Consumers of the stream."""

    @property
    def first_ts_ns(self) -> int | None:
        """``first_ts`` in nanoseconds since 1970."""
        return self._time_ns("first_ts")

    @property
    def last_ts_ns(self) -> int | None:
        """``last_ts`` in nanoseconds since 1970."""
        return self._time_ns("last_ts")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class PeerInfo(WireObject):
    """One server that follows the leader of a stream or consumer."""

    name: str = text()
    """Name of the server."""
    current: bool = flag()
    """Whether it was seen lately and has everything."""
    offline: bool = flag()
    """Whether it has not been seen lately."""
    active: MaybeDuration = seconds(None, never=-1)
    """Seconds since it was seen."""
    lag: int = integer(0)
    """How many operations it is behind."""
    peer: str = text()
    """Its id in the cluster."""
    pending: bool = flag()
    """Whether it is meant to become a member and is not one yet. Server 2.15."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ClusterInfo(WireObject):
    """The servers that hold a stream or consumer."""

    name: str | None = text(None)
    """Name of the cluster."""
    raft_group: str | None = text(None)
    """Name of the group of servers. Server 2.11."""
    leader: str | None = text(None)
    """Name of the leading server; None while there is none."""
    leader_since: datetime | None = time()
    """Since when it leads. Server 2.12."""
    system_account: bool = flag()
    """Whether replication uses the system account. Server 2.12."""
    traffic_account: str | None = text(None)
    """The account replication uses. Server 2.12."""
    replicas: Listing[PeerInfo] = listing(PeerInfo)
    """The other servers."""
    desired: Mapping[str, Any] | None = raw()
    """Where the group is being moved to, as the server says it. Server 2.15."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class APIErrorDetail(WireObject):
    """An error inside an answer that is itself none."""

    code: int = integer(0)
    """HTTP-like class of the error."""
    err_code: int = integer(0)
    """The number to branch on."""
    description: str = text()
    """The server's own words."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class StreamSourceInfo(WireObject):
    """How far a mirror or source is behind the stream it copies."""

    name: str = text()
    """Name of the other stream."""
    lag: int = integer(0)
    """Messages still to be copied."""
    active: MaybeDuration = seconds(None, never=-1)
    """Seconds since something was heard of the other stream; None if nothing ever was."""
    seq: int | None = integer(None)
    """Last sequence copied, for sources. Server 2.15."""
    error: APIErrorDetail | None = nested(APIErrorDetail, optional=True)
    """Why copying fails."""
    external: ExternalStream | None = nested(ExternalStream, optional=True)
    """Where the other stream is, if elsewhere."""
    filter_subject: str | None = text(None)
    """The only subjects copied."""
    subject_transforms: Listing[SubjectTransform] = listing(SubjectTransform)
    """Rules by which subjects are renamed."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class StreamAlternate(WireObject):
    """A stream that has the same messages, such as a mirror; the nearest comes first."""

    name: str = text()
    """Its name."""
    domain: str | None = text(None)
    """Its JetStream domain."""
    cluster: str = text()
    """The cluster that holds it."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class StreamInfo(WireObject):
    """Everything the server says about a stream at one moment."""

    config: StreamConfig = nested(StreamConfig)
    """Its configuration, with the defaults the server filled in."""
    created: datetime = time(ZERO_TIME)
    """When it was created. Two streams of one name are told apart by it."""
    state: StreamState = nested(StreamState)
    """How much it holds."""
    domain: str | None = text(None)
    """The JetStream domain it is in."""
    cluster: ClusterInfo | None = nested(ClusterInfo, optional=True)
    """The servers that hold it; one server alone names only itself, as leader, or nothing."""
    mirror: StreamSourceInfo | None = nested(StreamSourceInfo, optional=True)
    """How far a mirror is behind."""
    sources: Listing[StreamSourceInfo] = listing(StreamSourceInfo)
    """How far it is behind its sources."""
    alternates: Listing[StreamAlternate] = listing(StreamAlternate)
    """In a cluster: streams with the same messages, itself included; empty if there is none. Server
    2.8.3."""
    ts: datetime | None = time()
    """When the server wrote this. Server 2.10."""

    _ENVELOPE: ClassVar[frozenset[str]] = frozenset(
        {"type", "did_create", "total", "offset", "limit"}
    )

    @property
    def created_ns(self) -> int:
        """``created`` in nanoseconds since 1970."""
        return self._time_ns("created") or 0

    @property
    def ts_ns(self) -> int | None:
        """``ts`` in nanoseconds since 1970."""
        return self._time_ns("ts")
