"""Entry: one revision of one key, and the operation named by its headers (ADR-8, ADR-48)."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from jetsync.headers import Headers
from jetsync.jetstream import JetStreamMsg, StoredMsg
from jetsync.jetstream._wire import WireEnum

__all__ = [
    "OPERATION",
    "REASON",
    "Entry",
    "KeyValueOperation",
    "from_delivery",
    "from_store",
    "named_operation",
    "operation_of",
    "ttl_of",
]

OPERATION = "KV-Operation"
REASON = "Nats-Marker-Reason"
_TTL = "Nats-TTL"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LONGEST = 292 * 365 * 86400.0
"""Seconds: what 64 bits of nanoseconds hold, so the longest time that a server knows."""
_WHOLE = re.compile(r"[0-9]{1,18}")
_GO_DURATION = re.compile(r"(?:[0-9]{1,18}(?:\.[0-9]{0,18})?(?:h|ms|m|us|\u00b5s|\u03bcs|ns|s))+")
_GO_PART = re.compile(r"([0-9.]+)([^0-9.]+)")
_GO_UNITS = {
    "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6,
    "ns": 1e-9,
}  # fmt: skip


class KeyValueOperation(WireEnum):
    """The operation of an entry on its key."""

    PUT = "PUT"
    """It gave the key a value."""
    DELETE = "DEL"
    """It took the value away; earlier revisions stay in the history."""
    PURGE = "PURGE"
    """It took the value and all earlier revisions away, or the value has aged out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One revision of a key (ADR-8). Immutable, safe to share between threads."""

    bucket: str
    key: str
    value: bytes
    """Empty for a deletion, and when only metadata was asked for."""
    revision: int
    """Its number, unique in the bucket and ever growing."""
    created_ns: int
    """When the bucket received it, in nanoseconds since 1970."""
    delta: int = 0
    """How many entries were behind it when it was read: 0 for the latest."""
    operation: KeyValueOperation = KeyValueOperation.PUT
    ttl: float | None = None
    """Its own time to live in seconds from ``created`` on (``create(ttl=)``, ``purge(ttl=)``); None
    when it has none. The ``ttl`` of the bucket applies too."""

    @property
    def created(self) -> datetime:
        """When the bucket received it (UTC, microseconds)."""
        return _EPOCH + timedelta(microseconds=self.created_ns // 1000)

    @property
    def expires(self) -> datetime | None:
        """When its own ``ttl`` is over (UTC, microseconds); None when it has none."""
        return None if self.ttl is None else self.created + timedelta(seconds=self.ttl)

    @property
    def remaining(self) -> float | None:
        """How many seconds of its own ``ttl`` are left now, 0.0 when it is over; None when it has
        none. Compares the server's clock with the one of this machine."""
        if self.ttl is None:
            return None
        return max(0.0, self.created_ns / 1e9 + self.ttl - time.time())


def operation_of(raw_headers: bytes) -> KeyValueOperation:
    """The operation of a message on its key. Does not block."""
    # Searching for the names first saves parsing the headers of nearly all messages.
    if b"KV-Operation" not in raw_headers and b"Nats-Marker-Reason" not in raw_headers:
        return KeyValueOperation.PUT
    headers = Headers.parse(raw_headers)
    return named_operation(headers.get(OPERATION), headers.get(REASON))


def named_operation(done: str | None, reason: str | None) -> KeyValueOperation:
    """The operation that the headers ``OPERATION`` and ``REASON`` name; None for one that is not
    there. Does not block."""
    if done:
        # Any other word than PURGE is a deletion (ADR-8).
        is_purge = done == KeyValueOperation.PURGE
        return KeyValueOperation.PURGE if is_purge else KeyValueOperation.DELETE
    if reason is None:
        return KeyValueOperation.PUT
    return KeyValueOperation.DELETE if reason == "Remove" else KeyValueOperation.PURGE


def ttl_of(raw_headers: bytes) -> float | None:
    """The time to live of a message in seconds; None without one, and for an invalid one. Does not
    block.

    Clients write whole seconds or a duration as Go prints it, such as ``1m30s`` (ADR-43).
    """
    if b"Nats-TTL" not in raw_headers:
        return None
    text = Headers.parse(raw_headers).get(_TTL) or ""
    if _WHOLE.fullmatch(text):
        ttl = float(text)
    elif _GO_DURATION.fullmatch(text):
        ttl = sum(float(amount) * _GO_UNITS[unit] for amount, unit in _GO_PART.findall(text))
    else:
        return None  # such as "never"
    return ttl if 0 < ttl <= _LONGEST else None


def from_store(bucket: str, key: str, msg: StoredMsg) -> Entry:
    """Make an entry of a message that was read by sequence or subject."""
    return Entry(
        bucket=bucket,
        key=key,
        value=msg.data,
        revision=msg.seq,
        created_ns=msg.time_ns or 0,
        operation=operation_of(msg.raw_headers),
        ttl=ttl_of(msg.raw_headers),
    )


def from_delivery(bucket: str, key: str, msg: JetStreamMsg) -> Entry:
    """Make an entry of a message that a consumer delivered."""
    metadata = msg.metadata
    return Entry(
        bucket=bucket,
        key=key,
        value=msg.data,
        revision=metadata.stream_seq,
        created_ns=metadata.timestamp_ns,
        delta=metadata.num_pending,
        operation=operation_of(msg.raw_headers),
        ttl=ttl_of(msg.raw_headers),
    )
