"""Valid names, versions, subjects and metadata of services (ADR-32, semver.org)."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

from jetsync.errors import ConfigError
from jetsync.protocol.subjects import check_publish_subject, check_queue, check_subscribe_subject

__all__ = [
    "DEFAULT_PREFIX",
    "DEFAULT_QUEUE_GROUP",
    "INHERIT",
    "Inherit",
    "check_group",
    "check_metadata",
    "check_name",
    "check_prefix",
    "check_queue_group",
    "check_version",
    "discovery_subject",
    "join",
]

DEFAULT_QUEUE_GROUP = "q"
DEFAULT_PREFIX = "$SRV"

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = r"(?:0|[1-9][0-9]*)"
_PART = rf"(?:{_NUMBER}|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-{_PART}(?:\.{_PART})*)?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)


class Inherit(enum.Enum):
    """The type of ``INHERIT``."""

    INHERIT = "INHERIT"

    def __repr__(self) -> str:
        return self.name


INHERIT: Final = Inherit.INHERIT
"""An endpoint or group without a queue group of its own takes that of its group or service."""


def check_name(what: str, name: str) -> str:
    """Return ``name`` if a service or endpoint can have it, else raise ConfigError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot name {what}: a name has letters, digits, - and _")
    return name


def check_version(version: str) -> str:
    """Return ``version`` if it is one of semantic versioning, else raise ConfigError."""
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ConfigError(f"version must be like 1.0.0 (semantic versioning), not {version!r}")
    return version


def check_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Return a copy of the metadata, {} for None. Raises ConfigError."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ConfigError(f"metadata must be a mapping, not {type(metadata).__name__}")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigError(f"metadata must map str to str, got {key!r}: {value!r}")
    return dict(metadata)


def check_group(name: str) -> str:
    """Return ``name`` if the subjects of a group can begin with it: "" or one without ">"."""
    if name == "":
        return name
    check_subscribe_subject(name)
    if name.rsplit(".", maxsplit=1)[-1] == ">":
        raise ConfigError(f"group {name!r} must not have '>': its subjects begin with it")
    return name


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if discovery can be below it, else raise ConfigError."""
    check_publish_subject(prefix)
    return check_subscribe_subject(prefix)


def check_queue_group(queue: str | Inherit | None) -> str | Inherit | None:
    """Return what was given if it can be the queue group of an endpoint; raises ConfigError."""
    return queue if queue is None or queue is INHERIT else check_queue(str_or_refuse(queue))


def str_or_refuse(queue: object) -> str:
    """Return a str, else raise ConfigError: queue_group is a str, None or INHERIT."""
    if not isinstance(queue, str):
        raise ConfigError(f"queue_group must be a str, None or INHERIT, not {queue!r}")
    return queue


def join(group: str, subject: str) -> str:
    """The subject of an endpoint below a group."""
    return f"{group}.{subject}" if group else subject


def discovery_subject(prefix: str, verb: str, name: str | None, instance: str | None) -> str:
    """The discovery subject: of all services, of those of a name, or of one instance."""
    return ".".join(part for part in (prefix, verb, name, instance) if part)
