"""The server's answers about a consumer: its configuration, its progress and waiting messages.

Nothing here is sent to a server. Times are ``datetime`` in UTC with an ``_ns`` property beside
them, durations are ``float`` seconds. Source: nats-server 2.15, ``$JS.API.CONSUMER.INFO``, ADR-42.
"""

# ruff: noqa: RUF009  (the calls in the class bodies return dataclasses.field, which ruff cannot see)

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from jetsync.jetstream._wire import (
    ZERO_TIME,
    Listing,
    MaybeDuration,
    WireObject,
    flag,
    integer,
    listing,
    nested,
    seconds,
    text,
    time,
)
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.stream_info import ClusterInfo

__all__ = ["ConsumerInfo", "ConsumerLag", "PriorityGroupState", "SequenceInfo"]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SequenceInfo(WireObject):
    """A place in the work of a consumer."""

    consumer_seq: int = integer(0)
    """Counted in deliveries: redelivered messages count again."""
    stream_seq: int = integer(0)
    """Sequence of the message in its stream."""
    last_active: datetime | None = time()
    """When something happened there last; None if nothing has."""

    @property
    def last_active_ns(self) -> int | None:
        """``last_active`` in nanoseconds since 1970."""
        return self._time_ns("last_active")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class PriorityGroupState(WireObject):
    """Which client a priority group is pinned to. Server 2.11."""

    group: str = text()
    """Name of the group."""
    pinned_client_id: str | None = text(None)
    """Id of the pinned client; None if there is none."""
    pinned_ts: datetime | None = time()
    """Since when it is pinned."""

    @property
    def pinned_ts_ns(self) -> int | None:
        """``pinned_ts`` in nanoseconds since 1970."""
        return self._time_ns("pinned_ts")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ConsumerInfo(WireObject):
    """Everything the server says about a consumer at one moment."""

    stream_name: str = text()
    """Its stream."""
    name: str = text()
    """Its name."""
    created: datetime = time(ZERO_TIME)
    """When it was created."""
    config: ConsumerConfig = nested(ConsumerConfig)
    """Its configuration, with the defaults the server filled in."""
    delivered: SequenceInfo = nested(SequenceInfo)
    """The last message delivered."""
    ack_floor: SequenceInfo = nested(SequenceInfo)
    """The message up to which all are acknowledged."""
    num_ack_pending: int = integer(0)
    """Messages delivered and not yet acknowledged."""
    num_redelivered: int = integer(0)
    """How many of those were delivered more than once."""
    num_waiting: int = integer(0)
    """Pulls that wait for messages."""
    num_pending: int = integer(0)
    """Messages not yet delivered."""
    cluster: ClusterInfo | None = nested(ClusterInfo, optional=True)
    """The servers that hold its state; None without a cluster."""
    push_bound: bool = flag()
    """Whether the deliver subject of a push consumer has a subscriber. Server 2.3.5."""
    paused: bool = flag()
    """Whether it is paused. Server 2.11."""
    pause_remaining: MaybeDuration = seconds(None)
    """Seconds until the pause is over. Server 2.11."""
    priority_groups: Listing[PriorityGroupState] = listing(PriorityGroupState)
    """State of the priority groups. Server 2.11."""
    ts: datetime | None = time()
    """When the server wrote this. Server 2.10."""

    _ENVELOPE: ClassVar[frozenset[str]] = frozenset({"type"})

    @property
    def created_ns(self) -> int:
        """``created`` in nanoseconds since 1970."""
        return self._time_ns("created") or 0

    @property
    def ts_ns(self) -> int | None:
        """``ts`` in nanoseconds since 1970."""
        return self._time_ns("ts")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerLag:
    """How far a consumer is behind its stream, at one moment. Made by ``Consumer.lag()``."""

    num_pending: int
    """Messages not yet delivered."""
    num_ack_pending: int
    """Messages delivered and not yet acknowledged."""
    num_redelivered: int
    """How many of those were delivered more than once."""
    num_waiting: int
    """Pulls that wait for messages."""
    delivered_stream_seq: int
    """Stream sequence of the last message delivered."""
    ack_floor_stream_seq: int
    """Stream sequence up to which all messages are acknowledged."""
    paused: bool
    """Whether delivery is paused."""
    ts: datetime | None
    """When the server wrote this, if it says so."""

    @classmethod
    def from_info(cls, info: ConsumerInfo) -> ConsumerLag:
        """Take the numbers out of a ``ConsumerInfo``, which ``info`` is. Does not block."""
        return cls(
            num_pending=info.num_pending,
            num_ack_pending=info.num_ack_pending,
            num_redelivered=info.num_redelivered,
            num_waiting=info.num_waiting,
            delivered_stream_seq=info.delivered.stream_seq,
            ack_floor_stream_seq=info.ack_floor.stream_seq,
            paused=info.paused,
            ts=info.ts,
        )
