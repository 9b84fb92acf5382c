"""Streams and stored messages as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jetsync._printable import printable
from jetsync.cli import values
from jetsync.cli.output import Fields, Output, Table

if TYPE_CHECKING:
    from jetsync.jetstream.config.stream import Placement, RePublish, StreamConfig
    from jetsync.jetstream.config.stream_info import ClusterInfo, StreamInfo

__all__ = [
    "EMPTY",
    "fields",
    "origins",
    "peers",
    "placed",
    "report",
    "republished",
    "stored",
    "stored_text",
    "table",
]

EMPTY = "no streams"
_OPTIONS = (
    "allow_direct",
    "mirror_direct",
    "allow_rollup_hdrs",
    "allow_msg_ttl",
    "allow_msg_counter",
    "allow_atomic",
    "allow_batched",
    "allow_msg_schedules",
    "deny_delete",
    "deny_purge",
    "no_ack",
    "sealed",
    "discard_new_per_subject",
)


def table(streams: Sequence[StreamInfo]) -> Table:
    """Return the list of streams."""
    return Table(
        ("STREAM", "SUBJECTS", ">MESSAGES", ">SIZE", ">CONSUMERS", ">LAST MESSAGE"),
        [
            (
                info.config.name,
                _subjects(info),
                info.state.messages,
                values.format_size(info.state.bytes),
                info.state.consumer_count,
                values.ago(info.state.last_ts) or "never",
            )
            for info in streams
        ],
        EMPTY,
    )


def report(streams: Sequence[StreamInfo], *, raw: bool = False) -> Table:
    """Return the table that shows where the bytes are and which replicas are behind. ``raw``:
    numbers as programs read them."""

    def number(value: int) -> object:
        return str(value) if raw else value

    return Table(
        (
            "STREAM",
            "STORAGE",
            ">MESSAGES",
            ">SIZE",
            ">SUBJECTS",
            ">DELETED",
            ">CONSUMERS",
            "LEADER",
            "REPLICAS",
        ),
        [
            (
                info.config.name,
                info.config.storage,
                number(info.state.messages),
                str(info.state.bytes) if raw else values.format_size(info.state.bytes),
                number(info.state.num_subjects),
                number(info.state.num_deleted),
                number(info.state.consumer_count),
                (info.cluster.leader if info.cluster else None) or "-",
                ", ".join(peers(info.cluster)) or "-",
            )
            for info in streams
        ],
        EMPTY,
    )


def peers(cluster: ClusterInfo | None) -> list[str]:
    """Return the followers, and what is wrong with each."""
    found = []
    for peer in cluster.replicas if cluster else []:
        state = "offline" if peer.offline else "" if peer.current else "behind"
        if peer.lag:
            state = f"{state} {peer.lag:,} behind".strip().replace("behind ", "", 1)
        found.append(f"{peer.name} ({state})" if state else peer.name)
    return found


def fields(info: StreamInfo) -> Fields:
    """Return all that there is to know about a stream."""
    config, state = info.config, info.state
    limits: dict[str, object] = {
        "Messages": _limit(config.max_msgs),
        "Messages per subject": _limit(config.max_msgs_per_subject),
        "Size": values.format_size(config.max_bytes),
        "Age": values.format_duration(config.max_age) if config.max_age else "unlimited",
        "Message size": values.format_size(config.max_msg_size),
        "Consumers": _limit(config.max_consumers),
        "Inactive consumer": values.format_duration(config.consumer_limits.inactive_threshold)
        if config.consumer_limits.inactive_threshold
        else None,
        "Unacknowledged": config.consumer_limits.max_ack_pending or None,
    }
    options = [name for name in _OPTIONS if getattr(config, name)]
    return Fields(
        f"Stream {config.name}, created {values.format_time(info.created)}",
        {
            "Configuration": {
                "Description": config.description,
                "Subjects": list(config.subjects),
                "Mirror of": config.mirror.name if config.mirror else None,
                "Sources": [source.name for source in config.sources],
                "Renamed": _renamed(config),
                "Published again": republished(config.republish),
                "Storage": config.storage,
                "Replicas": config.num_replicas,
                "Placement": placed(config.placement),
                "Retention": config.retention,
                "Discard": config.discard,
                "Duplicate window": values.format_duration(config.duplicate_window)
                if config.duplicate_window
                else None,
                "Compression": None if str(config.compression) == "none" else config.compression,
                "Options": ", ".join(options) or None,
                "Metadata": [f"{key}={value}" for key, value in sorted(config.metadata.items())],
            },
            "Limits": limits,
            "Cluster": {
                "Name": info.cluster.name or None,
                "Leader": info.cluster.leader or "none at the moment",
                "Followers": list(peers(info.cluster)),
            }
            if info.cluster
            else {},
            "Copied from": origins(info),
            "State": {
                "Messages": state.messages,
                "Size": values.format_size(state.bytes),
                "First": _place(state.first_seq, state.first_ts),
                "Last": _place(state.last_seq, state.last_ts),
                "Deleted": state.num_deleted or None,
                "Lost": len(state.lost.msgs or []) if state.lost else None,
                "Subjects": state.num_subjects,
                "Consumers": state.consumer_count,
            },
        },
    )


def stored(msg: Any) -> dict[str, object]:
    """Return a stored message for JSON."""
    return values.message(msg, stream=msg.stream, seq=msg.seq, time=msg.time)


def stored_text(out: Output, msg: Any) -> str:
    """Return a stored message as text."""
    title = out.style("bold", f"[{msg.stream} #{msg.seq}] {printable(msg.subject)}")
    when = values.format_time(msg.time)
    return f"{title}  {when}\n{values.header_text(msg)}{values.body_text(msg.data)}\n"


def _subjects(info: StreamInfo) -> str:
    config = info.config
    if config.mirror is not None:
        return f"mirror of {config.mirror.name}"
    first = list(config.subjects[:3])
    more = len(config.subjects) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "") or "(sources only)"


def origins(info: StreamInfo) -> dict[str, object]:
    """Return the streams that it copies, and how far it is behind each."""
    return {
        source.name: f"{source.lag:,} behind"
        + (f", last seen {values.format_duration(source.active)} ago" if source.active else "")
        for source in [*([info.mirror] if info.mirror else []), *(info.sources or [])]
    }


def _renamed(config: StreamConfig) -> str | None:
    rule = config.subject_transform
    return None if rule is None else f"{rule.src or '>'} to {rule.dest}"


def republished(rule: RePublish | None) -> str | None:
    """Return which messages are published again, and where."""
    if rule is None:
        return None
    return f"{rule.src or '>'} to {rule.dest}" + (" (headers only)" if rule.headers_only else "")


def placed(placement: Placement | None) -> str | None:
    """Return where the servers are that have it."""
    if placement is None:
        return None
    cluster = [f"cluster {placement.cluster}"] if placement.cluster else []
    return ", ".join([*cluster, *(f"tag {tag}" for tag in placement.tags)]) or None


def _limit(value: int) -> object:
    return "unlimited" if value < 0 else value


def _place(seq: int, when: Any) -> str:
    at = values.format_time(when)
    return f"{seq:,}" + (f" at {at}" if at else "")
