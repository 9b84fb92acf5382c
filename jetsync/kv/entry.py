"""Entry: one revision of one key, and what its headers say was done (ADR-8, ADR-48)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from jetsync.headers import Headers
from jetsync.jetstream import JetStreamMsg, StoredMsg
from jetsync.jetstream._wire import WireEnum

__all__ = ["OPERATION", "Entry", "KeyValueOperation", "from_delivery", "from_store", "operation_of"]

OPERATION = "KV-Operation"
_REASON = "Nats-Marker-Reason"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class KeyValueOperation(WireEnum):
    """What an entry did to its key."""

    PUT = "PUT"
    """It gave the key a value."""
    DELETE = "DEL"
    """It took the value away; earlier revisions stay in the history."""
    PURGE = "PURGE"
    """It took the value and all earlier revisions away, or the value has aged out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One revision of a key. Immutable."""

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

    @property
    def created(self) -> datetime:
        """When the bucket received it (UTC, microseconds)."""
        return _EPOCH + timedelta(microseconds=self.created_ns // 1000)


def operation_of(raw_headers: bytes) -> KeyValueOperation:
    """What a message does to its key. Does not block."""
    # Looking for the words first spares nearly all messages the parsing.
    if b"KV-Operation" not in raw_headers and b"Nats-Marker-Reason" not in raw_headers:
        return KeyValueOperation.PUT
    headers = Headers.parse(raw_headers)
    done = headers.get(OPERATION)
    if done:
        # Any other word than PURGE is a deletion (ADR-8).
        is_purge = done == KeyValueOperation.PURGE
        return KeyValueOperation.PURGE if is_purge else KeyValueOperation.DELETE
    reason = headers.get(_REASON)
    if reason is None:
        return KeyValueOperation.PUT
    return KeyValueOperation.DELETE if reason == "Remove" else KeyValueOperation.PURGE


def from_store(bucket: str, key: str, msg: StoredMsg) -> Entry:
    """Make an entry of a message that was read by its place."""
    return Entry(
        bucket=bucket,
        key=key,
        value=msg.data,
        revision=msg.seq,
        created_ns=msg.time_ns or 0,
        operation=operation_of(msg.raw_headers),
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
    )
