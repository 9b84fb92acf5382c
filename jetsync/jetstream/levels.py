"""Which server a feature needs: checked before a request is sent, so that no call is half done.

An old server ignores an unknown field, or refuses it without naming a remedy. This module raises
``ApiLevelRequiredError`` instead, which names the field and the version. Servers count their
JetStream API in levels since 2.11; before, the version says what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jetsync.errors import (
    ApiLevelRequiredError,
)
from jetsync.protocol.info import ServerInfo

__all__ = ["LEVELS", "Served", "check", "consumer_needs", "stream_needs"]

LEVELS = {"2.11": 1, "2.12": 2, "2.14": 4, "2.15": 5}
"""The API level that came with a version."""

_STREAM_FIELDS = {
    "discard_new_per_subject": "2.9.1",
    "allow_direct": "2.9",
    "mirror_direct": "2.9",
    "compression": "2.10",
    "first_seq": "2.10",
    "subject_transform": "2.10",
    "consumer_limits": "2.10",
    "metadata": "2.10",
    "allow_msg_ttl": "2.11",
    "subject_delete_marker_ttl": "2.11",
    "allow_msg_counter": "2.12",
    "allow_atomic": "2.12",
    "allow_msg_schedules": "2.12",
    "persist_mode": "2.12",
    "allow_batched": "2.14",
}
_SOURCE_FIELDS = {"subject_transforms": "2.10", "consumer": "2.14"}
_CONSUMER_FIELDS = {
    "filter_subjects": "2.10",
    "metadata": "2.10",
    "pause_until": "2.11",
    "priority_groups": "2.11",
    "priority_policy": "2.11",
    "priority_timeout": "2.11",
    "sourcing": "2.14",
}
_CONSUMER_VALUES = {
    ("priority_policy", "prioritized"): "2.12",
    ("ack_policy", "flow_control"): "2.14",
}

Need = tuple[str, str]
"""A feature in use, and the version that it needs."""


class Served:
    """The abilities of a server: its API level if it tells one, else its version; None is
    unknown."""

    def __init__(
        self, *, level: int | None = None, version: tuple[int, int, int] | None = None
    ) -> None:
        self.level = level
        self.version = version

    @classmethod
    def by(cls, info: ServerInfo | None) -> Served:
        """Read it from the INFO of the server we are connected to. Does not block."""
        if info is None:
            return cls()
        # Servers from 2.12 on put the level into INFO; an unreadable version is three zeros.
        version = info.version_tuple
        return cls(level=info.api_lvl or None, version=version if any(version) else None)

    def has(self, version: str) -> bool:
        """Whether it has the features of ``version``; True if nothing is known about it."""
        level = LEVELS.get(version)
        if self.level is not None and level is not None:
            return self.level >= level
        if self.version is None:
            return True
        wanted = tuple(int(part) for part in version.split("."))
        return self.version[: len(wanted)] >= wanted

    def __str__(self) -> str:
        if self.version is not None:
            return "version " + ".".join(map(str, self.version))
        return f"JetStream API level {self.level}"


def check(served: Served, needs: Iterable[Need]) -> None:
    """Raise ApiLevelRequiredError for the first need that is not served. Does not block."""
    for what, version in needs:
        if not served.has(version):
            raise ApiLevelRequiredError(
                f"{what} needs nats-server {version}; this one has {served}. Upgrade it, or do "
                "without",
                code=412,
                err_code=10185,
                description="JetStream minimum api level required",
            )


def stream_needs(wire: Mapping[str, Any]) -> Iterable[Need]:
    """The needs of a stream configuration (as sent), field by field."""
    yield from _fields("StreamConfig", wire, _STREAM_FIELDS)
    for source in [wire.get("mirror") or {}, *(wire.get("sources") or ())]:
        yield from _fields("StreamSource", source, _SOURCE_FIELDS)


def consumer_needs(wire: Mapping[str, Any]) -> Iterable[Need]:
    """The needs of a consumer configuration (as sent), field by field."""
    yield from _fields("ConsumerConfig", wire, _CONSUMER_FIELDS)
    for (name, value), version in _CONSUMER_VALUES.items():
        if wire.get(name) == value:
            yield f"ConsumerConfig.{name} {value!r}", version


def _fields(kind: str, wire: Mapping[str, Any], table: Mapping[str, str]) -> Iterable[Need]:
    for name, version in table.items():
        if name in wire:
            yield f"{kind}.{name}", version
