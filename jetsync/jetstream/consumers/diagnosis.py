"""Why a consumer delivers nothing, as one sentence made of its state on the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync.errors import (
    ConsumerNotFoundError,
    DisconnectedError,
    Error,
    JetStreamNotEnabledError,
    JetStreamUnavailableError,
    StreamNotFoundError,
    TimeoutError,
)
from jetsync.jetstream.config.consumer import AckPolicy, PriorityPolicy, ReplayPolicy
from jetsync.jetstream.config.stream_info import StreamInfo

if TYPE_CHECKING:
    from jetsync.jetstream.config.consumer_info import ConsumerInfo
    from jetsync.jetstream.consumers.shared import SharedConsumer

__all__ = ["explain_stall"]


def explain_stall(consumer: SharedConsumer, timeout: float) -> str | None:
    """Return in one sentence why a consumer delivers nothing; None when there is no reason."""
    port = consumer.port
    nc = port.connection
    port.check()
    deadline = Deadline(timeout)
    name = f"consumer {consumer.name!r} of stream {consumer.stream_name!r}"
    if not port.linked:
        return f"the connection is down at the moment ({nc.status.name}): {nc.last_error}"
    try:
        info = consumer.info(deadline.remaining())
    except StreamNotFoundError:
        return f"stream {consumer.stream_name!r} does not exist (any more)"
    except ConsumerNotFoundError:
        return f"{name} does not exist (any more): it was deleted, or ended unused"
    except JetStreamNotEnabledError:
        return "no server answers for JetStream: it is not enabled, or has no leader at the moment"
    except (TimeoutError, DisconnectedError, JetStreamUnavailableError) as error:
        return f"no server answers for {name}: it has no leader at the moment ({error})"
    return (
        _cannot_deliver(name, info)
        or _must_not_deliver(name, info)
        or _not_to_us(name, info, consumer.pins)
        or _nothing_to_deliver(consumer, name, info, deadline)
        or _no_pull_waits(name, info)
    )


def _cannot_deliver(name: str, info: ConsumerInfo) -> str | None:
    if info.cluster is not None and info.cluster.name and not info.cluster.leader:
        return f"{name} has no leader at the moment"
    if info.config.deliver_subject:
        return f"{name} is a push consumer: it delivers to {info.config.deliver_subject!r} only"
    return None


def _must_not_deliver(name: str, info: ConsumerInfo) -> str | None:
    config = info.config
    if info.paused:
        left = f", for {info.pause_remaining:.0f} s more" if info.pause_remaining else ""
        return f"{name} is paused until {config.pause_until}{left}; resume() ends that"
    most = config.max_ack_pending
    waits_for_acks = config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL)
    if waits_for_acks and most is not None and 0 < most <= info.num_ack_pending:
        return (
            f"{name} waits for acknowledgements: "
            + counted(info.num_ack_pending, "message was", "messages were")
            + f" delivered and not acknowledged, max_ack_pending is {most}"
        )
    return None


def _not_to_us(name: str, info: ConsumerInfo, pins: dict[str, str]) -> str | None:
    if info.config.priority_policy != PriorityPolicy.PINNED_CLIENT:
        return None
    for group in info.priority_groups:
        pinned = group.pinned_client_id
        if pinned and pins.get(group.group) != pinned:
            return (
                f"{name} is pinned to another client ({pinned}) in group {group.group!r}, since "
                f"{group.pinned_ts}; unpin() takes that from it"
            )
    return None


def _nothing_to_deliver(
    consumer: SharedConsumer, name: str, info: ConsumerInfo, deadline: Deadline
) -> str | None:
    if info.num_pending:
        return None
    if info.num_ack_pending:
        wait = info.config.ack_wait
        return (
            f"{name} has delivered everything; "
            + counted(
                info.num_ack_pending,
                "message waits for acknowledgement and comes",
                "messages wait for acknowledgement and come",
            )
            + f" again {wait:g} s after delivery"
            if wait
            else f"{name} has delivered everything and waits for acknowledgements"
        )
    config = info.config
    filters = [config.filter_subject] if config.filter_subject else list(config.filter_subjects)
    if filters:
        return _filtered(consumer, name, filters, deadline)
    return f"{name} has delivered everything: nothing new is in the stream"


def _filtered(
    consumer: SharedConsumer, name: str, filters: list[str], deadline: Deadline
) -> str | None:
    text = " or ".join(repr(each) for each in filters)
    try:
        total, matching = 0, 0
        for each in filters:
            answer = consumer.api.request(
                f"STREAM.INFO.{consumer.stream_name}",
                {"subjects_filter": each},
                timeout=deadline.remaining(),
            )
            state = StreamInfo.from_wire(answer).state
            total = state.messages
            matching += sum((state.subjects or {}).values())
    except Error:
        return f"{name} has delivered everything that matches {text}"
    if matching:
        return f"{name} has delivered everything that matches {text}"
    there = counted(total, "message")
    return f"the stream has {there}, and none matches {text}, the filter of {name}"


def _no_pull_waits(name: str, info: ConsumerInfo) -> str | None:
    config = info.config
    if config.priority_policy == PriorityPolicy.OVERFLOW and info.num_waiting:
        return (
            f"{name} has the policy overflow: pulls wait for more than their min_pending (now "
            f"{info.num_pending}) or min_ack_pending (now {info.num_ack_pending})"
        )
    if config.max_waiting and info.num_waiting >= config.max_waiting:
        pulls = counted(info.num_waiting, "pull waits", "pulls wait")
        return f"{pulls} at {name}, more than its max_waiting takes"
    if not info.num_waiting:
        ready = counted(info.num_pending, "message is", "messages are")
        return f"{ready} ready, and no client's pull waits at {name}"
    if config.replay_policy == ReplayPolicy.ORIGINAL:
        return f"{name} replays messages with the pauses that they were published with"
    return None
