"""ObjectMeta, ObjectInfo, ObjectLink: the description of an object and its JSON (ADR-20).

Any client may have written what is read: it is validated here, so that other files need not.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from jetsync.errors import ConfigError, ObjectMetaError
from jetsync.jetstream._codecs import format_time
from jetsync.objectstore.names import check_name, is_term

__all__ = [
    "CHUNK_SIZE",
    "ObjectInfo",
    "ObjectLink",
    "ObjectMeta",
    "digest_of",
    "dump",
    "is_id",
    "load",
    "parse",
]

CHUNK_SIZE = 128 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DIGEST = "SHA-256="


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectLink:
    """Where a link leads: to an object, or to a whole bucket (``name`` is None). Immutable."""

    bucket: str
    name: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectMeta:
    """The description of an object that a user gives. Immutable. Raises ``ConfigError``."""

    name: str
    """Any text of at most 1024 bytes."""
    description: str | None = None
    headers: Mapping[str, list[str]] = field(default_factory=dict)
    """Names with all their values."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Names with one value each."""
    chunk_size: int = CHUNK_SIZE
    """Bytes of one message; at most what the server takes (``max_payload``, usually 1 MiB)."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.description is not None and not isinstance(self.description, str):
            raise ConfigError("ObjectMeta.description must be a str")
        if not _is_texts(self.metadata):
            raise ConfigError("ObjectMeta.metadata must map str to str")
        if not _is_lists(self.headers):
            raise ConfigError("ObjectMeta.headers must map str to lists of str")
        size = self.chunk_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(f"ObjectMeta.chunk_size must be 1 or more, got {size!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectInfo:
    """The stored description of an object or a link. Immutable."""

    name: str
    bucket: str
    nuid: str
    """Names this content of the object: another one for each put."""
    size: int = 0
    """Bytes."""
    chunks: int = 0
    """Messages that they are stored in."""
    digest: str = ""
    """``SHA-256=`` and the digest of all bytes in base64url."""
    deleted: bool = False
    description: str | None = None
    headers: Mapping[str, list[str]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    chunk_size: int = 0
    """Most bytes of one message; 0 when it is not known."""
    link: ObjectLink | None = None
    """Where it leads, if it is a link."""
    modified_ns: int = field(default=0, compare=False)
    """When the bucket received this, in nanoseconds since 1970."""

    @property
    def modified(self) -> datetime:
        """When the bucket received this (UTC, microseconds)."""
        return _EPOCH + timedelta(microseconds=self.modified_ns // 1000)

    def to_wire(self) -> dict[str, Any]:
        """The JSON object of ADR-20, without the time."""
        options: dict[str, Any] = {}
        if self.link is not None:
            options["link"] = {"bucket": self.link.bucket}
            if self.link.name is not None:
                options["link"]["name"] = self.link.name
        if self.chunk_size:
            options["max_chunk_size"] = self.chunk_size
        wire: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "headers": self.headers,
            "metadata": self.metadata,
            "options": options,
        }
        wire = {name: value for name, value in wire.items() if value}
        wire |= {"bucket": self.bucket, "nuid": self.nuid, "size": self.size, "chunks": self.chunks}
        if self.digest:
            wire["digest"] = self.digest
        if self.deleted:
            wire["deleted"] = True
        return wire


def digest_of(digest: bytes) -> str:
    """The digest as it is stored."""
    return _DIGEST + base64.urlsafe_b64encode(digest).decode()


def dump(info: ObjectInfo, **more: Any) -> bytes:
    """The JSON that is stored, with ``more`` fields that only this library reads.

    ``mtime`` is written for other clients; here the time is the message's own.
    """
    now = format_time(datetime.now(timezone.utc))
    return json.dumps({**info.to_wire(), "mtime": now, **more}, separators=(",", ":")).encode()


def parse(data: bytes, bucket: str) -> dict[str, Any]:
    """Read stored JSON as it is. Raises ObjectMetaError for what is no JSON object."""
    try:
        wire = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad(bucket, f"it is no JSON: {error}") from None
    if not isinstance(wire, dict):
        raise _bad(bucket, "it is no JSON object")
    return wire


def load(wire: dict[str, Any], bucket: str, modified_ns: int) -> ObjectInfo:
    """Make an ObjectInfo of parsed JSON. Raises ObjectMetaError for invalid fields."""
    read = _Fields(wire, bucket)
    options = read.nested("options")
    link = None
    if options.wire.get("link") is not None:
        target = options.nested("link")
        link = ObjectLink(bucket=target.text("bucket"), name=target.text("name") or None)
        if not is_term(link.bucket):
            raise _bad(bucket, f"it links to bucket {link.bucket!r}")
    name, nuid = read.text("name"), read.text("nuid")
    try:
        check_name(name)
        if link is not None and link.name is not None:
            check_name(link.name)
    except ConfigError as error:
        raise _bad(bucket, str(error)) from None
    # The id becomes a part of a subject that is purged: a wildcard would purge everything.
    if not is_id(nuid):
        raise _bad(bucket, f"{nuid[:40]!r} cannot be an id")
    digest = read.text("digest").replace("+", "-").replace("/", "_")
    if digest and not digest.startswith(_DIGEST):
        raise _bad(bucket, f"the digest {digest[:40]!r} is not a SHA-256 one")
    headers, metadata = _as_lists(wire.get("headers") or {}), wire.get("metadata") or {}
    if not _is_lists(headers) or not _is_texts(metadata):
        raise _bad(bucket, "headers or metadata are of the wrong types")
    return ObjectInfo(
        name=name,
        bucket=bucket,
        nuid=nuid,
        size=read.count("size"),
        chunks=read.count("chunks"),
        digest=digest,
        deleted=wire.get("deleted") is True,
        description=read.text("description") or None,
        headers=headers,
        metadata=metadata,
        chunk_size=options.count("max_chunk_size"),
        link=link,
        modified_ns=modified_ns,
    )


class _Fields:
    """Typed access to a JSON object; a missing field is empty."""

    def __init__(self, wire: dict[str, Any], bucket: str) -> None:
        self.wire = wire
        self._bucket = bucket

    def text(self, name: str) -> str:
        value: str = self._get(name, str, "")
        return value

    def count(self, name: str) -> int:
        value: int = self._get(name, int, 0)
        if isinstance(value, bool) or not 0 <= value < 2**64:
            raise _bad(self._bucket, f"its {name} is {str(value)[:40]}")
        return value

    def nested(self, name: str) -> _Fields:
        return _Fields(self._get(name, dict, {}), self._bucket)

    def _get(self, name: str, kind: type, empty: Any) -> Any:
        value = self.wire.get(name)
        if value is None:
            return empty
        if not isinstance(value, kind):
            raise _bad(self._bucket, f"its {name} is a {type(value).__name__}")
        return value


def is_id(value: object) -> bool:
    """Whether it can be the id of a content: a part of a subject that cannot change it."""
    return is_term(value)


def _as_lists(headers: Any) -> Any:
    """Return headers with lists of texts, also where nats-py wrote a single text."""
    if not isinstance(headers, dict):
        return headers
    return {name: [value] if isinstance(value, str) else value for name, value in headers.items()}


def _is_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(one, str) for key, one in value.items()
    )


def _is_lists(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(many, list) and all(isinstance(x, str) for x in many)
        for key, many in value.items()
    )


def _bad(bucket: str, why: str) -> ObjectMetaError:
    return ObjectMetaError(
        f"a description in bucket {bucket!r} cannot be read: {why}; put the object again",
        bucket=bucket,
    )
