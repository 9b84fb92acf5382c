"""The configuration of the server consumers that an ordered consumer reads with (ADR-17)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jetsync.jetstream._wire import build
from jetsync.jetstream.consumers.config import AckPolicy, ConsumerConfig, DeliverPolicy

__all__ = ["ordered_config"]


def ordered_config(
    *, filter_subjects: str | Sequence[str] | None, deliver_policy: str, **fields: Any
) -> ConsumerConfig:
    """The configuration of every server consumer of an ordered one. Raises ConfigError."""
    if isinstance(filter_subjects, str):
        filter_subjects = [filter_subjects]
    filters = list(filter_subjects or ())
    if not filters and deliver_policy == DeliverPolicy.LAST_PER_SUBJECT:
        filters = [">"]
    return build(
        ConsumerConfig,
        None,
        {
            **fields,
            "deliver_policy": deliver_policy,
            "filter_subjects": filters,
            "ack_policy": AckPolicy.NONE,
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
        },
    )
