"""The server's answers about an account: how much of JetStream it uses and may use.

Nothing here is sent to a server. Sizes are bytes; limits of -1 mean "no limit". Source:
nats-server 2.15, ``$JS.API.INFO``.
"""

# ruff: noqa: RUF009  (the calls in the class bodies return dataclasses.field, which ruff cannot see)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from jetsync.jetstream._wire import WireObject, flag, integer, mapping, nested, text

__all__ = ["APIStats", "AccountInfo", "AccountLimits", "AccountTier"]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class AccountLimits(WireObject):
    """The limits of an account, or of one tier of it."""

    max_memory: int = integer(0, least=-1)
    """Bytes of memory streams."""
    max_storage: int = integer(0, least=-1)
    """Bytes of file streams."""
    max_streams: int = integer(0, least=-1)
    """Streams."""
    max_consumers: int = integer(0, least=-1)
    """Consumers."""
    max_ack_pending: int = integer(0, least=-1)
    """Highest ``max_ack_pending`` of a consumer. Server 2.8."""
    memory_max_stream_bytes: int = integer(0, least=-1)
    """Bytes of one memory stream. Server 2.8."""
    storage_max_stream_bytes: int = integer(0, least=-1)
    """Bytes of one file stream. Server 2.8."""
    max_bytes_required: bool = flag()
    """Whether every stream has to have ``max_bytes``."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class AccountTier(WireObject):
    """Use and limits of the streams with one number of replicas (``R1``, ``R3``). Server 2.8."""

    memory: int = integer(0)
    """Bytes used by memory streams."""
    storage: int = integer(0)
    """Bytes used by file streams."""
    reserved_memory: int = integer(0)
    """Bytes promised to memory streams by their ``max_bytes``."""
    reserved_storage: int = integer(0)
    """Bytes promised to file streams by their ``max_bytes``."""
    streams: int = integer(0)
    """Streams."""
    consumers: int = integer(0)
    """Consumers."""
    limits: AccountLimits = nested(AccountLimits)
    """The limits."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class APIStats(WireObject):
    """How the JetStream API has been used."""

    level: int = integer(0)
    """API level of the server: 1 for 2.11, 2 and 3 for 2.12, 4 for 2.14, 5 for 2.15; 0 before."""
    total: int = integer(0)
    """Requests."""
    errors: int = integer(0)
    """Requests answered with an error."""
    inflight: int = integer(0)
    """Requests being worked on. Server 2.10."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class AccountInfo(WireObject):
    """Everything the server says about an account at one moment."""

    memory: int = integer(0)
    """Bytes used by memory streams."""
    storage: int = integer(0)
    """Bytes used by file streams."""
    reserved_memory: int = integer(0)
    """Bytes promised to memory streams by their ``max_bytes``."""
    reserved_storage: int = integer(0)
    """Bytes promised to file streams by their ``max_bytes``."""
    streams: int = integer(0)
    """Streams."""
    consumers: int = integer(0)
    """Consumers."""
    domain: str | None = text(None)
    """JetStream domain of the server."""
    limits: AccountLimits = nested(AccountLimits)
    """The limits of the account; with tiers, see those instead."""
    api: APIStats = nested(APIStats)
    """Use of the API."""
    tiers: Mapping[str, AccountTier] = mapping(AccountTier)
    """Use and limits by tier; empty without tiers. Server 2.8."""

    _ENVELOPE: ClassVar[frozenset[str]] = frozenset({"type"})
