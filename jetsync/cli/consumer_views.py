"""Consumers and delivered messages as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jetsync._printable import printable
from jetsync.cli import values
from jetsync.cli.output import Fields, Output, Table
from jetsync.cli.stream_views import peers

if TYPE_CHECKING:
    from jetsync.jetstream.config.consumer_info import ConsumerInfo, SequenceInfo

__all__ = ["EMPTY", "delivered", "delivered_text", "fields", "report", "table"]

EMPTY = "no consumers"


def table(consumers: Sequence[ConsumerInfo]) -> Table:
    """Return the list of consumers."""
    return Table(
        ("CONSUMER", "KIND", "ACK", "FILTER", ">ACK PENDING", ">UNPROCESSED", ">LAST DELIVERY"),
        [
            (
                info.name,
                "push" if info.config.deliver_subject else "pull",
                info.config.ack_policy,
                _filters(info) or ">",
                info.num_ack_pending,
                info.num_pending,
                values.ago(info.delivered.last_active) or "never",
            )
            for info in consumers
        ],
        EMPTY,
    )


def report(consumers: Sequence[ConsumerInfo]) -> Table:
    """Return the table of progress and lag."""
    return Table(
        (
            "CONSUMER",
            ">ACK PENDING",
            ">REDELIVERED",
            ">UNPROCESSED",
            ">ACK FLOOR",
            ">WAITING PULLS",
            "STATE",
            "LEADER",
        ),
        [
            (
                info.name,
                info.num_ack_pending,
                info.num_redelivered,
                info.num_pending,
                info.ack_floor.stream_seq,
                info.num_waiting,
                _state(info),
                (info.cluster.leader if info.cluster else None) or "-",
            )
            for info in consumers
        ],
        EMPTY,
    )


def fields(info: ConsumerInfo) -> Fields:
    """Return all that there is to know about a consumer."""
    config = info.config
    kind = f"push to {config.deliver_subject}" if config.deliver_subject else "pull"
    return Fields(
        f"Consumer {info.name} of stream {info.stream_name}, created "
        f"{values.format_time(info.created)}",
        {
            "Configuration": {
                "Description": config.description,
                "Kind": f"{kind}, {'durable' if config.durable_name else 'ephemeral'}",
                "Filter": _filters(info) or None,
                "Deliver": config.deliver_policy,
                "Start": config.opt_start_seq or values.format_time(config.opt_start_time),
                "Acknowledge": config.ack_policy,
                "Ack wait": _seconds(config.ack_wait),
                "Max deliver": config.max_deliver if config.max_deliver > 0 else "unlimited",
                "Backoff": ", ".join(map(values.format_duration, config.backoff)) or None,
                "Max ack pending": config.max_ack_pending,
                "Max waiting pulls": None if config.deliver_subject else config.max_waiting,
                "Replay": config.replay_policy,
                "Headers only": config.headers_only or None,
                "Inactive threshold": _seconds(config.inactive_threshold),
                "Priority groups": list(config.priority_groups),
                "Replicas": config.num_replicas or None,
                "Metadata": [f"{key}={value}" for key, value in sorted(config.metadata.items())],
            },
            "Cluster": {
                "Leader": info.cluster.leader or "none at the moment",
                "Followers": list(peers(info.cluster)),
            }
            if info.cluster
            else {},
            "State": {
                "Last delivered": _place(info.delivered),
                "Ack floor": _place(info.ack_floor),
                "Unacknowledged": info.num_ack_pending,
                "Redelivered": info.num_redelivered,
                "Unprocessed": info.num_pending,
                "Waiting pulls": info.num_waiting,
                "Paused": f"for another {values.format_duration(info.pause_remaining)}"
                if info.paused and info.pause_remaining
                else None,
                "Pinned": [
                    f"{group.group}: {group.pinned_client_id}"
                    for group in info.priority_groups or []
                    if group.pinned_client_id
                ],
            },
        },
    )


def delivered(msg: Any) -> dict[str, object]:
    """Return a delivered message for JSON."""
    about = msg.metadata
    return values.message(
        msg,
        stream=about.stream,
        consumer=about.consumer,
        seq=about.stream_seq,
        num_delivered=about.num_delivered,
        num_pending=about.num_pending,
        time=about.timestamp,
    )


def delivered_text(out: Output, msg: Any) -> str:
    """Return a delivered message as text."""
    about = msg.metadata
    title = out.style("bold", f"[{about.stream} #{about.stream_seq}] {printable(msg.subject)}")
    again = f", delivery {about.num_delivered}" if about.num_delivered > 1 else ""
    more = f"  {about.num_pending:,} more{again}"
    return f"{title}{more}\n{values.header_text(msg)}{values.body_text(msg.data)}\n"


def _filters(info: ConsumerInfo) -> str:
    config = info.config
    return config.filter_subject or ", ".join(config.filter_subjects or [])


def _seconds(value: float | None) -> str | None:
    return values.format_duration(value) if value else None


def _place(where: SequenceInfo) -> str:
    last = values.ago(where.last_active)
    since = "" if last is None else ", just now" if last == "now" else f", {last} ago"
    return f"stream {where.stream_seq:,}, consumer {where.consumer_seq:,}{since}"


def _state(info: ConsumerInfo) -> str:
    if info.paused:
        return "paused"
    most = info.config.max_ack_pending or 0
    if info.config.ack_policy != "none" and 0 < most <= info.num_ack_pending:
        return "max ack pending reached"
    if info.num_pending and not info.config.deliver_subject and not info.num_waiting:
        return "no client pulls"
    return "ok"
