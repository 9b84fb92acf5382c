"""The fields of both configurations, as keywords of the calls that take them.

Written by tests/jetstream/generate_fields.py; what a field means stands in its class. None
stands for a field's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

from jetsync._deadline import Seconds
from jetsync.jetstream.config.consumer import (
    AckPolicy,
    DeliverPolicy,
    PriorityPolicy,
    ReplayPolicy,
)
from jetsync.jetstream.config.stream import (
    DiscardPolicy,
    PersistMode,
    Placement,
    RePublish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConsumerLimits,
    StreamSource,
    SubjectTransform,
)

__all__ = ["ConsumerFields", "StreamFields", "SubscribeFields"]

RetentionPolicyText = Literal[
    "limits",
    "interest",
    "workqueue",
]
DiscardPolicyText = Literal[
    "old",
    "new",
]
StorageTypeText = Literal[
    "file",
    "memory",
]
StoreCompressionText = Literal[
    "none",
    "s2",
]
PersistModeText = Literal[
    "default",
    "async",
]
DeliverPolicyText = Literal[
    "all",
    "last",
    "new",
    "by_start_sequence",
    "by_start_time",
    "last_per_subject",
]
AckPolicyText = Literal[
    "none",
    "all",
    "explicit",
    "flow_control",
]
ReplayPolicyText = Literal[
    "instant",
    "original",
]
PriorityPolicyText = Literal[
    "none",
    "overflow",
    "pinned_client",
    "prioritized",
]


class StreamFields(TypedDict, total=False):
    """The fields of ``StreamConfig``."""

    name: str | None
    description: str | None
    subjects: Iterable[str] | None
    retention: RetentionPolicy | RetentionPolicyText | None
    max_consumers: int | None
    max_msgs: int | None
    max_bytes: int | None
    max_age: Seconds | None
    max_msgs_per_subject: int | None
    max_msg_size: int | None
    discard: DiscardPolicy | DiscardPolicyText | None
    storage: StorageType | StorageTypeText | None
    num_replicas: int | None
    no_ack: bool | None
    duplicate_window: Seconds | None
    placement: Placement | Mapping[str, Any] | None
    mirror: StreamSource | Mapping[str, Any] | None
    sources: Iterable[StreamSource | Mapping[str, Any]] | None
    compression: StoreCompression | StoreCompressionText | None
    first_seq: int | None
    subject_transform: SubjectTransform | Mapping[str, Any] | None
    republish: RePublish | Mapping[str, Any] | None
    allow_direct: bool | None
    mirror_direct: bool | None
    discard_new_per_subject: bool | None
    sealed: bool | None
    deny_delete: bool | None
    deny_purge: bool | None
    allow_rollup_hdrs: bool | None
    consumer_limits: StreamConsumerLimits | Mapping[str, Any] | None
    allow_msg_ttl: bool | None
    subject_delete_marker_ttl: Seconds | None
    allow_msg_counter: bool | None
    allow_atomic: bool | None
    allow_msg_schedules: bool | None
    persist_mode: PersistMode | PersistModeText | None
    allow_batched: bool | None
    metadata: Mapping[str, str] | None


class SubscribeFields(TypedDict, total=False):
    """The fields of ``ConsumerConfig`` that are no keywords of ``subscribe`` itself."""

    name: str | None
    durable_name: str | None
    description: str | None
    deliver_policy: DeliverPolicy | DeliverPolicyText | None
    opt_start_seq: int | None
    opt_start_time: datetime | None
    ack_policy: AckPolicy | AckPolicyText | None
    ack_wait: Seconds | None
    max_deliver: int | None
    backoff: Iterable[Seconds] | None
    filter_subject: str | None
    filter_subjects: Iterable[str] | None
    replay_policy: ReplayPolicy | ReplayPolicyText | None
    rate_limit_bps: int | None
    sample_freq: str | None
    max_waiting: int | None
    max_ack_pending: int | None
    headers_only: bool | None
    max_batch: int | None
    max_expires: Seconds | None
    max_bytes: int | None
    deliver_subject: str | None
    deliver_group: str | None
    idle_heartbeat: Seconds | None
    inactive_threshold: Seconds | None
    num_replicas: int | None
    mem_storage: bool | None
    direct: bool | None
    sourcing: bool | None
    metadata: Mapping[str, str] | None
    pause_until: datetime | None
    priority_groups: Iterable[str] | None
    priority_policy: PriorityPolicy | PriorityPolicyText | None
    priority_timeout: Seconds | None


class ConsumerFields(SubscribeFields, total=False):
    """The fields of ``ConsumerConfig``."""

    flow_control: bool | None
