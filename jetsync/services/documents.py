"""The documents that a service sends: ping, info and stats (ADR-32), as objects and as JSON."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar, TypeVar

from jetsync.errors import ProtocolError

__all__ = ["EndpointInfo", "EndpointStats", "ServiceInfo", "ServicePing", "ServiceStats"]

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))"
)

T = TypeVar("T", bound="ServicePing")


@dataclasses.dataclass(frozen=True)
class EndpointInfo:
    """The description of an endpoint. Immutable."""

    name: str
    subject: str
    """Where it listens, the subjects of its groups included."""
    queue_group: str | None
    """None: it is in no group, and every instance of the service gets every request."""
    metadata: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The fields as ADR-32 names them."""
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": self.queue_group or "",
            "metadata": dict(self.metadata),
        }


@dataclasses.dataclass(frozen=True)
class EndpointStats:
    """The statistics of an endpoint since the start or the last ``reset()``. Immutable.

    Times are in nanoseconds. ``data`` is the value of the service's ``stats_handler``, None without
    one.
    """

    name: str
    subject: str
    queue_group: str | None
    num_requests: int
    """Requests received, those included that were refused because too many waited."""
    num_errors: int
    """Answers that were errors."""
    last_error: str
    """``"code:description"`` of the last one, "" when there was none."""
    processing_time: int
    """Time spent in the handler, all threads together."""
    average_processing_time: int
    """``processing_time`` by ``num_requests``."""
    data: Any = None

    def to_dict(self) -> dict[str, Any]:
        """The fields as ADR-32 names them; ``data`` is always there, since some libraries look
        for it."""
        return dataclasses.asdict(self) | {"queue_group": self.queue_group or ""}


@dataclasses.dataclass(frozen=True)
class ServicePing:
    """One running instance of a service. Immutable."""

    name: str
    id: str
    version: str
    metadata: Mapping[str, str]

    TYPE: ClassVar[str] = "io.nats.micro.v1.ping_response"

    def to_dict(self) -> dict[str, Any]:
        """The document as ADR-32 has it."""
        return {
            "type": self.TYPE,
            "name": self.name,
            "id": self.id,
            "version": self.version,
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_json(cls: type[T], data: bytes) -> T:
        """Read the answer of a service. Raises ProtocolError for anything else."""
        try:
            found = json.loads(data)
            if found["type"] != cls.TYPE:
                raise ProtocolError(f"a service answered {found['type']!r}, not {cls.TYPE}")
            return cls(**cls._read(found))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ProtocolError(f"the answer of a service is no {cls.TYPE}: {error!r}") from error

    @classmethod
    def _read(cls, found: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": _text(found["name"]),
            "id": _text(found["id"]),
            "version": _text(found["version"]),
            "metadata": _metadata(found.get("metadata")),
        }


@dataclasses.dataclass(frozen=True)
class ServiceInfo(ServicePing):
    """The description of a service and its endpoints. Immutable."""

    description: str
    endpoints: tuple[EndpointInfo, ...]

    TYPE: ClassVar[str] = "io.nats.micro.v1.info_response"

    def to_dict(self) -> dict[str, Any]:
        """The document as ADR-32 has it."""
        return super().to_dict() | {
            "description": self.description,
            "endpoints": [endpoint.to_dict() for endpoint in self.endpoints],
        }

    @classmethod
    def _read(cls, found: dict[str, Any]) -> dict[str, Any]:
        return super()._read(found) | {
            "description": _text(found.get("description") or ""),
            "endpoints": _each(
                found.get("endpoints"),
                lambda one: EndpointInfo(
                    _text(one["name"]),
                    _text(one["subject"]),
                    _text(one.get("queue_group") or "") or None,
                    _metadata(one.get("metadata")),
                ),
            ),
        }


@dataclasses.dataclass(frozen=True)
class ServiceStats(ServicePing):
    """The statistics of a service. Immutable."""

    started: datetime
    """When this instance started, in UTC."""
    endpoints: tuple[EndpointStats, ...]

    TYPE: ClassVar[str] = "io.nats.micro.v1.stats_response"

    def to_dict(self) -> dict[str, Any]:
        """The document as ADR-32 has it."""
        started = self.started.astimezone(timezone.utc).replace(tzinfo=None)
        return super().to_dict() | {
            "started": started.isoformat(timespec="microseconds") + "Z",
            "endpoints": [endpoint.to_dict() for endpoint in self.endpoints],
        }

    @classmethod
    def _read(cls, found: dict[str, Any]) -> dict[str, Any]:
        return super()._read(found) | {
            "started": _time(found["started"]),
            "endpoints": _each(
                found.get("endpoints"),
                lambda one: EndpointStats(
                    _text(one["name"]),
                    _text(one["subject"]),
                    _text(one.get("queue_group") or "") or None,
                    _number(one["num_requests"]),
                    _number(one["num_errors"]),
                    _text(one.get("last_error") or ""),
                    _number(one["processing_time"]),
                    _number(one["average_processing_time"]),
                    one.get("data"),
                ),
            ),
        }


E = TypeVar("E")


def _each(value: Any, read: Callable[[dict[str, Any]], E]) -> tuple[E, ...]:
    """Read a list of objects; some libraries send null for an empty one."""
    return tuple(read(one) for one in value or ())


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _metadata(value: Any) -> dict[str, str]:
    """Read metadata; some libraries send null for none."""
    return {_text(key): _text(text) for key, text in (value or {}).items()}


def _time(value: Any) -> datetime:
    """Read RFC 3339, to the microsecond."""
    match = _TIME.fullmatch(_text(value))
    if match is None:
        raise ValueError(f"{value!r} is no time of RFC 3339")
    day, clock, fraction, sign, hours, minutes = match.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    moment = moment - offset if sign != "-" else moment + offset
    return moment.replace(microsecond=int((fraction or "0").ljust(6, "0")[:6]))
