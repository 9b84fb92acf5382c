"""The options of a pull: its body, the bounds of a buffer, the heartbeat rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, TypedDict

from jetsync._core.pull_window import (
    DEFAULT_MESSAGES,
    HUGE_BATCH,
    LARGEST_BUFFER,
    LARGEST_WINDOW,
    Window,
)
from jetsync._core.pulls import DEFAULT_EXPIRES, WARY_HEARTBEAT, PullOptions
from jetsync._deadline import Seconds, to_seconds
from jetsync._numbers import check_whole
from jetsync.errors import ConfigError

__all__ = [
    "DEFAULT_EXPIRES",
    "DEFAULT_MESSAGES",
    "HUGE_BATCH",
    "IDLE_HEARTBEAT",
    "LARGEST_BUFFER",
    "LARGEST_WINDOW",
    "WARY_HEARTBEAT",
    "BufferLimits",
    "BufferOptions",
    "MessagesOptions",
    "PullOptions",
    "Window",
    "check_count",
    "heartbeat_for",
]

IDLE_HEARTBEAT = 2.0
"""The largest default heartbeat. ADR-37 proposes half of ``expires``; with this bound a pull that
the server lost is noticed sooner, for one small message every two seconds."""

_SHORTEST_WITH_HEARTBEAT = 1.0


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
    on_missed_heartbeat: Literal["warn", "stop"]
    on_pinned: Callable[[str], Any] | None
    on_unpinned: Callable[[str], Any] | None


def check_count(name: str, value: object) -> None:
    """Raise ConfigError for a value that is neither None nor an int of 1 or more."""
    if value is not None:
        check_whole(name, value)


def heartbeat_for(length: float, given: Seconds | None, what: str) -> float | None:
    """The heartbeat of pulls that may last ``length`` seconds: ``given``, or half of the length
    but 2 s at most, or none for a pull shorter than 1 s. Raises ConfigError."""
    if given is None:
        if length < _SHORTEST_WITH_HEARTBEAT:
            return None
        return min(length / 2, IDLE_HEARTBEAT)
    beat = to_seconds(given, "heartbeat")
    if not 0 < beat * 2 <= length:
        raise ConfigError(f"heartbeat must be above 0 and at most half of {what}")
    return beat


@dataclasses.dataclass(frozen=True)
class BufferLimits:
    """The checked options of a continuous pull (ADR-37): a bound in messages or in bytes.

    ``grows``: the user gave neither bound, so the window may follow what the link can hold.
    """

    max_messages: int
    max_bytes: int | None
    threshold_messages: int
    threshold_bytes: int
    expires: float
    heartbeat: float
    grows: bool = False

    @classmethod
    def of(
        cls,
        *,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        expires: Seconds = DEFAULT_EXPIRES,
        heartbeat: Seconds | None = None,
        threshold_messages: int | None = None,
        threshold_bytes: int | None = None,
    ) -> BufferLimits:
        """Check the user's options and fill in the defaults. Raises ConfigError."""
        length = to_seconds(expires, "expires")
        if length < 1:
            raise ConfigError("expires must be 1 second or more")
        if max_messages is not None and max_bytes is not None:
            raise ConfigError("give max_messages or max_bytes, not both")
        check_count("max_messages", max_messages)
        check_count("max_bytes", max_bytes)
        beat = heartbeat_for(length, heartbeat, "expires")
        assert beat is not None
        grows = max_messages is None and max_bytes is None and threshold_messages is None
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
        return cls(
            max_messages, max_bytes, threshold_messages, threshold_bytes, length, beat, grows
        )
