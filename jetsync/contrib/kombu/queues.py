"""A queue in the store: its record in the bucket, its subjects, its consumers."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from jetsync.contrib.names import to_token

__all__ = ["QueueRecord", "consumer_name", "record_of", "subject_of"]

_MOST_LEVELS = 10
_TRANSIENT_EXPIRES = 300.0
"""Seconds after which a queue of one process is forgotten when nothing renews it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueRecord:
    """The declaration of a queue. Times in seconds."""

    levels: int = 1
    """Priorities 0 to ``levels - 1``."""
    transient: bool = False
    """Whether it is auto-delete or exclusive, and so kept in memory only."""
    expires: float | None = None
    """The queue is forgotten so many seconds after its last renewal; None: never."""
    message_ttl: float | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None

    def to_json(self) -> bytes:
        """The record as it is kept under the queue's key."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> QueueRecord:
        """The record of a queue; fields that a newer release has added are left out."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in json.loads(data).items() if key in known})


def record_of(
    *, auto_delete: bool, exclusive: bool, arguments: Mapping[str, Any] | None
) -> QueueRecord:
    """Make the record of a queue of what AMQP's ``queue.declare`` says."""
    arguments = arguments or {}
    transient = bool(auto_delete or exclusive)
    expires = _seconds(arguments.get("x-expires"))
    if expires is not None:
        expires = float(max(1, math.ceil(expires)))
    elif transient:
        expires = _TRANSIENT_EXPIRES
    most = arguments.get("x-max-priority")
    return QueueRecord(
        levels=1 if most is None else min(max(int(most), 0) + 1, _MOST_LEVELS),
        transient=transient,
        expires=expires,
        message_ttl=_seconds(arguments.get("x-message-ttl")),
        dead_letter_exchange=arguments.get("x-dead-letter-exchange"),
        dead_letter_routing_key=arguments.get("x-dead-letter-routing-key"),
    )


def _seconds(milliseconds: Any) -> float | None:
    return None if milliseconds is None else float(milliseconds) / 1000


def subject_of(vhost: str, queue: str, record: QueueRecord, level: int | str) -> str:
    """The subject of the messages of a queue at a level; ``*`` for all of them."""
    kind = "t" if record.transient else "q"
    return f"kombu.{to_token(vhost)}.{kind}.{to_token(queue)}.{level}"


def consumer_name(queue: str, level: int) -> str:
    """The durable consumer of a queue at a level."""
    return f"{to_token(queue)}-{level}"
