"""Checks that an existing consumer fits the subscription; each reason against it has its own
error."""

from __future__ import annotations

from typing import Any

from jetsync.errors import (
    ConsumerMismatchError,
    DeliverGroupMismatchError,
    DuplicateSubscriptionError,
    PullConsumerError,
    PushConsumerError,
    QueueStatusError,
    SubjectMismatchError,
)
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.subscribe.plan import Plan

__all__ = ["check_existing", "differences"]

# Checked by rules of their own, or not changed by subscribing.
_NOT_COMPARED = frozenset(
    {"name", "deliver_subject", "deliver_group", "filter_subject", "filter_subjects", "pause_until"}
)
# For the server 0 means its default here.
_ZERO_IS_DEFAULT = frozenset(
    {"max_ack_pending", "max_waiting", "max_deliver", "ack_wait", "num_replicas"}
    | {"inactive_threshold", "max_batch", "max_bytes", "max_expires", "priority_timeout"}
)


def check_existing(plan: Plan, info: ConsumerInfo) -> None:
    """Raise the SubscribeError that says why this consumer cannot be used. No I/O."""
    config = info.config
    shown = f"consumer {info.name!r} of stream {info.stream_name!r}"
    if plan.pull and config.deliver_subject:
        raise PushConsumerError(f"{shown} is a push consumer: use subscribe, not pull_subscribe")
    if not plan.pull:
        if not config.deliver_subject:
            raise PullConsumerError(
                f"{shown} is a pull consumer: use pull_subscribe, not subscribe"
            )
        _check_queue(plan, info, shown)
    _check_subject(plan, config, shown)
    differing = differences(plan, config)
    if differing:
        lines = "; ".join(
            f"{field}: yours {yours!r}, the server's {theirs!r}"
            for field, (yours, theirs) in differing.items()
        )
        raise ConsumerMismatchError(
            f"{shown} is configured differently, and subscribing does not change it: {lines}",
            fields=differing,
        )


def _check_queue(plan: Plan, info: ConsumerInfo, shown: str) -> None:
    queue, group = plan.queue, info.config.deliver_group
    if queue is None and group:
        raise DeliverGroupMismatchError(
            f"{shown} was made for the queue group {group!r}: give queue={group!r}",
            deliver_group=group,
        )
    if queue is None and info.push_bound:
        raise DuplicateSubscriptionError(
            f"{shown} is in use: a second subscription would get the same messages. End the "
            "other one, or give both the same queue"
        )
    if queue is None:
        return
    if not group:
        raise DeliverGroupMismatchError(
            f"{shown} was made without a deliver group, queue={queue!r} cannot share it",
            queue=queue,
        )
    if group != queue:
        raise DeliverGroupMismatchError(
            f"{shown} was made for another queue group: yours {queue!r}, the server's {group!r}",
            queue=queue,
            deliver_group=group,
        )
    for on, what in (
        (info.config.flow_control, "flow control"),
        (info.config.idle_heartbeat, "heartbeats"),
    ):
        if on:
            raise QueueStatusError(
                f"{shown} has {what}, which cannot be used with queue={queue!r}: each would go to "
                "any one member of the group"
            )


def _check_subject(plan: Plan, config: ConsumerConfig, shown: str) -> None:
    filters = _filters(config)
    if plan.subject is None or not filters or "filter_subjects" in plan.asked:
        return
    if plan.subject not in filters:
        raise SubjectMismatchError(
            f"{shown} takes {', '.join(map(repr, filters))}, not {plan.subject!r}",
            subject=plan.subject,
            filter_subjects=filters,
        )


def _filters(config: ConsumerConfig) -> tuple[str, ...]:
    one = (config.filter_subject,) if config.filter_subject else ()
    return (*one, *config.filter_subjects)


def differences(plan: Plan, config: ConsumerConfig) -> dict[str, tuple[Any, Any]]:
    """The requested fields that differ: (requested, the server's) for each."""
    found: dict[str, tuple[Any, Any]] = {}
    for field in sorted(set(plan.asked) - _NOT_COMPARED):
        yours, theirs = plan.asked[field], getattr(config, field)
        if yours is None or (field in _ZERO_IS_DEFAULT and not yours):
            continue
        if field == "ack_wait" and plan.asked.get("backoff"):
            continue  # the server puts the first step of the backoff there
        if field == "metadata":
            yours, theirs = _own(yours), _own(theirs)
        if field.endswith("_time"):
            same = getattr(plan.config, f"{field}_ns") == getattr(config, f"{field}_ns")
        else:
            same = yours == theirs
        if not same:
            found[field] = (yours, theirs)
    asked = plan.asked.get("filter_subjects")
    if asked and sorted(asked) != sorted(_filters(config)):
        found["filter_subjects"] = (list(asked), list(_filters(config)))
    filtered = plan.asked.get("filter_subject")
    if filtered and plan.subject is None and (filtered,) != _filters(config):
        found["filter_subject"] = (filtered, config.filter_subject or config.filter_subjects)
    return found


def _own(metadata: Any) -> dict[str, str]:
    """Return the metadata without the entries that the server adds."""
    return {name: value for name, value in metadata.items() if not name.startswith("_nats.")}
