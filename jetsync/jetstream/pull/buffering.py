"""How much a stream of messages may have in its buffer and on its way, and when it refills."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypedDict

from jetsync._deadline import Seconds
from jetsync.errors import ConfigError
from jetsync.jetstream.pull.engine import HUGE_BATCH, IDLE_HEARTBEAT

__all__ = ["DEFAULT_MESSAGES", "BufferOptions", "Buffering", "MessagesOptions", "check_count"]

DEFAULT_MESSAGES = 1000


class BufferOptions(TypedDict, total=False):
    """The options of ``OrderedConsumer.messages``."""

    max_messages: int | None
    max_bytes: int | None
    expires: Seconds
    heartbeat: Seconds | None
    threshold_messages: int | None
    threshold_bytes: int | None
    on_warning: Callable[[Exception], Any] | None
    stop_after: int | None


class MessagesOptions(BufferOptions, total=False):
    """The options of ``Consumer.messages``."""

    group: str | None
    min_pending: int | None
    min_ack_pending: int | None
    priority: int | None
    on_missed_heartbeat: str
    on_pinned: Callable[[str], Any] | None
    on_unpinned: Callable[[str], Any] | None


def check_count(name: str, value: object) -> None:
    """Refuse what is neither None nor an int of 1 or more (ConfigError)."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be 1 or more (int), not {value!r}")


@dataclasses.dataclass(frozen=True)
class Buffering:
    """The checked options of a continuous pull (ADR-37): a bound in messages or in bytes."""

    max_messages: int
    max_bytes: int | None
    threshold_messages: int
    threshold_bytes: int
    expires: float
    heartbeat: float

    @classmethod
    def of(
        cls,
        *,
        max_messages: int | None,
        max_bytes: int | None,
        expires: float,
        heartbeat: float | None,
        threshold_messages: int | None,
        threshold_bytes: int | None,
    ) -> Buffering:
        """Check what the user gave and fill in the rest. Raises ConfigError."""
        if expires < 1:
            raise ConfigError("expires must be 1 second or more")
        if max_messages is not None and max_bytes is not None:
            raise ConfigError("give max_messages or max_bytes, not both")
        check_count("max_messages", max_messages)
        check_count("max_bytes", max_bytes)
        if heartbeat is None:
            heartbeat = min(expires / 2, IDLE_HEARTBEAT)
        if not 0 < heartbeat * 2 <= expires:
            raise ConfigError("heartbeat must be above 0 and at most half of expires")
        if max_messages is None:
            max_messages = HUGE_BATCH if max_bytes is not None else DEFAULT_MESSAGES
        if threshold_messages is None:
            threshold_messages = max_messages // 2
        if not 0 <= threshold_messages <= max_messages:
            raise ConfigError("threshold_messages must not be above max_messages")
        if threshold_bytes is None:
            threshold_bytes = (max_bytes or 0) // 2
        if max_bytes is not None and not 0 <= threshold_bytes <= max_bytes:
            raise ConfigError("threshold_bytes must not be above max_bytes")
        return cls(max_messages, max_bytes, threshold_messages, threshold_bytes, expires, heartbeat)
