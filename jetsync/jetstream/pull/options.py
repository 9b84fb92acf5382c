"""What may be asked for with a pull: its body, the bounds of a buffer, the heartbeat rule."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, TypedDict

from jetsync._deadline import Seconds, to_seconds
from jetsync.errors import ConfigError

__all__ = [
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
    "check_count",
    "heartbeat_for",
]

HUGE_BATCH = 1_000_000
"""Messages asked for when only bytes are limited: the server takes 0 as 1."""

DEFAULT_MESSAGES = 1000
"""Messages in the buffer of a stream whose bounds were not given, at first."""

LARGEST_WINDOW = 64_000
"""Messages to which that buffer may grow while its user waits for the link."""

LARGEST_BUFFER = 32 * 2**20
"""Bytes to which it may grow."""

IDLE_HEARTBEAT = 2.0
"""Longest default. ADR-37 proposes half of ``expires``; a pull that a server lost in silence is
noticed sooner so, and an idle consumer costs one empty message every two seconds."""

WARY_HEARTBEAT = 0.25
"""After a change of leader the next pull may get lost without an answer. So for a moment pulls ask
for quick heartbeats, and one that gets none is sent again."""

_SHORTEST_WITH_HEARTBEAT = 1.0

_to_json = json.JSONEncoder(separators=(",", ":")).encode


_LONGEST = 1e9
"""Seconds (30 years) that a pull lasts at most: the server counts in nanoseconds of 64 bits."""


@dataclasses.dataclass(frozen=True)
class PullOptions:
    """The body of a pull request; durations in seconds. ``expires`` 0 is not sent."""

    batch: int
    expires: float
    max_bytes: int | None = None
    heartbeat: float | None = None
    no_wait: bool = False
    group: str | None = None
    min_pending: int | None = None
    min_ack_pending: int | None = None
    priority: int | None = None
    id: str | None = None
    """The pin id, of a group with the policy ``pinned_client``."""

    def body(self) -> bytes:
        fields: dict[str, Any] = {"batch": self.batch}
        if self.expires:
            fields["expires"] = round(min(self.expires, _LONGEST) * 1e9)
        if self.max_bytes is not None:
            fields["max_bytes"] = self.max_bytes
        if self.heartbeat:
            fields["idle_heartbeat"] = round(self.heartbeat * 1e9)
        if self.no_wait:
            fields["no_wait"] = True
        for name in ("group", "min_pending", "min_ack_pending", "priority", "id"):
            value = getattr(self, name)
            if value is not None:
                fields[name] = value
        return _to_json(fields).encode()


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
        expires: Seconds = 30.0,
        heartbeat: Seconds | None = None,
        threshold_messages: int | None = None,
        threshold_bytes: int | None = None,
    ) -> BufferLimits:
        """Check what the user gave and fill in the rest. Raises ConfigError."""
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
