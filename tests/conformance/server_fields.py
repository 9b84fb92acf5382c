"""The fields that nats-server 2.15.1 has in configurations and infos."""

from __future__ import annotations

from jetsync.jetstream._wire import WireObject
from jetsync.jetstream.config.account import AccountInfo, AccountLimits, APIStats
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.consumer_info import ConsumerInfo, PriorityGroupState, SequenceInfo
from jetsync.jetstream.config.stream import (
    ExternalStream,
    Placement,
    RePublish,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
)
from jetsync.jetstream.config.stream_info import (
    ClusterInfo,
    LostStreamData,
    PeerInfo,
    StreamAlternate,
    StreamInfo,
    StreamSourceInfo,
    StreamState,
)

FIELDS: dict[type[WireObject], str] = {
    StreamConfig: """
        name subjects retention max_consumers max_msgs max_bytes max_age max_msg_size discard
        storage num_replicas no_ack duplicate_window placement mirror sources max_msgs_per_subject
        description sealed deny_delete deny_purge allow_rollup_hdrs republish allow_direct
        mirror_direct discard_new_per_subject compression first_seq subject_transform
        consumer_limits metadata allow_msg_ttl subject_delete_marker_ttl allow_msg_counter
        allow_atomic allow_msg_schedules persist_mode allow_batched
    """,
    Placement: "cluster tags preferred",
    RePublish: "src dest headers_only",
    SubjectTransform: "src dest",
    StreamConsumerLimits: "inactive_threshold max_ack_pending",
    StreamSource: """
        name opt_start_seq opt_start_time filter_subject external subject_transforms consumer
    """,
    ExternalStream: "api deliver",
    StreamConsumerSource: "name deliver_subject",
    StreamInfo: "config created state domain cluster mirror sources alternates ts",
    StreamState: """
        messages bytes first_seq first_ts last_seq last_ts num_subjects subjects num_deleted
        deleted lost consumer_count
    """,
    LostStreamData: "msgs bytes",
    ClusterInfo: """
        name raft_group leader leader_since system_account traffic_account replicas desired
    """,
    PeerInfo: "name current offline active lag peer pending",
    StreamSourceInfo: "name lag active seq error external filter_subject subject_transforms",
    StreamAlternate: "name domain cluster",
    ConsumerConfig: """
        durable_name deliver_subject deliver_policy opt_start_seq opt_start_time ack_policy
        ack_wait max_deliver filter_subject replay_policy rate_limit_bps sample_freq max_waiting
        max_ack_pending flow_control idle_heartbeat direct description deliver_group headers_only
        max_batch max_expires inactive_threshold backoff max_bytes num_replicas mem_storage name
        filter_subjects metadata pause_until priority_groups priority_policy priority_timeout
        sourcing
    """,
    ConsumerInfo: """
        stream_name name created config delivered ack_floor num_ack_pending num_redelivered
        num_waiting num_pending cluster push_bound paused pause_remaining priority_groups ts
    """,
    SequenceInfo: "consumer_seq stream_seq last_active",
    PriorityGroupState: "group pinned_client_id pinned_ts",
    AccountInfo: """
        memory storage reserved_memory reserved_storage streams consumers domain limits api tiers
    """,
    AccountLimits: """
        max_memory max_storage max_streams max_consumers max_ack_pending memory_max_stream_bytes
        storage_max_stream_bytes max_bytes_required
    """,
    APIStats: "level total errors inflight",
}
