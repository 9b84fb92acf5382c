"""The configuration of the server consumers that an ordered consumer reads with (ADR-17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from jetsync._deadline import Seconds
from jetsync.jetstream._wire import build
from jetsync.jetstream.config.consumer import AckPolicy, ConsumerConfig, DeliverPolicy

if TYPE_CHECKING:
    from jetsync.jetstream.config.consumer import ReplayPolicy
    from jetsync.jetstream.config.fields import DeliverPolicyText, ReplayPolicyText

__all__ = ["OrderedOptions", "ordered_config"]


class OrderedOptions(TypedDict, total=False):
    """The options of ``JetStream.ordered_consumer``."""

    filter_subjects: str | Sequence[str] | None
    deliver_policy: DeliverPolicy | DeliverPolicyText
    opt_start_seq: int | None
    opt_start_time: datetime | None
    headers_only: bool
    replay_policy: ReplayPolicy | ReplayPolicyText
    inactive_threshold: Seconds
    max_reset_attempts: int
    name_prefix: str
    metadata: Mapping[str, str] | None
    timeout: Seconds | None


def ordered_config(
    *, filter_subjects: str | Sequence[str] | None, deliver_policy: str, **fields: Any
) -> ConsumerConfig:
    """The configuration of each server consumer of an ordered consumer. Raises ConfigError."""
    if isinstance(filter_subjects, str):
        filter_subjects = [filter_subjects]
    filters = list(filter_subjects or ())
    if not filters and deliver_policy == DeliverPolicy.LAST_PER_SUBJECT:
        fields["filter_subjects"] = [">"]
    elif len(filters) == 1:
        # The filter becomes part of the request's subject, by which permissions restrict readers.
        fields["filter_subject"] = filters[0]
    else:
        fields["filter_subjects"] = filters
    return build(
        ConsumerConfig,
        None,
        {
            **fields,
            "deliver_policy": deliver_policy,
            "ack_policy": AckPolicy.NONE,
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
        },
    )
