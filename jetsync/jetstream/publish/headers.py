"""The headers that tell a stream what to do with a message."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, TypedDict

from jetsync._core.handles import AUTO, Auto
from jetsync._core.ids import next_nuid
from jetsync._deadline import Seconds, to_seconds
from jetsync._numbers import check_whole
from jetsync.errors import ConfigError
from jetsync.headers import HeaderInput, Headers
from jetsync.protocol.subjects import check_name, check_subscribe_subject

__all__ = [
    "AUTO",
    "MSG_ID",
    "Auto",
    "PublishOptions",
    "identified",
    "publish_headers",
    "publish_needs",
    "stream_header",
]

MSG_ID = "Nats-Msg-Id"

_NEEDS = {"ttl": "2.11", "incr": "2.12", "schedule": "2.12"}
"""Options that an older server would ignore, like any unknown header."""


class PublishOptions(TypedDict, total=False):
    """The options of ``JetStream.publish`` that become headers, but for the message id."""

    rollup: Literal["sub", "all"] | None
    expected_stream: str | None
    expected_last_seq: int | None
    expected_last_subject_seq: int | None
    expected_last_subject_filter: str | None
    expected_last_msg_id: str | None
    ttl: Seconds | str | None
    incr: int | None
    schedule: str | datetime | timedelta | None
    schedule_target: str | None
    schedule_source: str | None
    schedule_ttl: Seconds | str | None
    schedule_time_zone: str | None
    schedule_rollup: Literal["sub"] | None


def publish_needs(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the needs of publish options: what is used and the server version that has it."""
    return [
        (f"the option {name}", version)
        for name, version in _NEEDS.items()
        if options.get(name) is not None
    ]


def identified(
    headers: HeaderInput | None, msg_id: str | Auto | None
) -> tuple[dict[str, Any], str | None]:
    """Return the headers of a publish without options and its message id. Raises ConfigError."""
    merged: dict[str, Any] = {}
    if headers:
        if type(headers) is dict:  # as nearly always: what asks for a kind of Mapping is slow
            merged = headers.copy()
        elif isinstance(headers, Headers):
            merged = dict(headers.to_dict())
        elif not hasattr(headers, "items"):
            raise ConfigError(f"headers must be a mapping, not {type(headers).__name__}")
        else:
            merged = dict(headers)
    sent_id = _message_id(msg_id, merged)
    if sent_id is not None:
        merged[MSG_ID] = sent_id
    return merged, sent_id


def publish_headers(
    headers: HeaderInput | None,
    *,
    msg_id: str | Auto | None = None,
    rollup: Literal["sub", "all"] | None = None,
    expected_stream: str | None = None,
    expected_last_seq: int | None = None,
    expected_last_subject_seq: int | None = None,
    expected_last_subject_filter: str | None = None,
    expected_last_msg_id: str | None = None,
    ttl: Seconds | str | None = None,
    incr: int | None = None,
    schedule: str | datetime | timedelta | None = None,
    schedule_target: str | None = None,
    schedule_source: str | None = None,
    schedule_ttl: Seconds | str | None = None,
    schedule_time_zone: str | None = None,
    schedule_rollup: Literal["sub"] | None = None,
) -> tuple[dict[str, Any], str | None]:
    """Return the headers of a publish and its message id. Raises ConfigError."""
    merged, msg_id = identified(headers, msg_id)
    if rollup is not None:
        if rollup not in ("sub", "all"):
            raise ConfigError("rollup must be 'sub' or 'all'")
        merged["Nats-Rollup"] = rollup
    if expected_stream is not None:
        merged.update(stream_header(expected_stream))
    if expected_last_seq is not None:
        merged["Nats-Expected-Last-Sequence"] = _sequence("expected_last_seq", expected_last_seq)
    if expected_last_subject_seq is not None:
        merged["Nats-Expected-Last-Subject-Sequence"] = _sequence(
            "expected_last_subject_seq", expected_last_subject_seq
        )
    if expected_last_subject_filter is not None:
        if expected_last_subject_seq is None:
            raise ConfigError("expected_last_subject_filter needs expected_last_subject_seq")
        merged["Nats-Expected-Last-Subject-Sequence-Subject"] = check_subscribe_subject(
            expected_last_subject_filter
        )
    if expected_last_msg_id is not None:
        if not isinstance(expected_last_msg_id, str) or not expected_last_msg_id:
            raise ConfigError("expected_last_msg_id must be a non-empty str or None")
        merged["Nats-Expected-Last-Msg-Id"] = expected_last_msg_id
    if ttl is not None:
        merged["Nats-TTL"] = _ttl(ttl, "ttl")
    if incr is not None:
        if not isinstance(incr, int) or isinstance(incr, bool):
            raise ConfigError("incr must be an int: what the counter grows by")
        merged["Nats-Incr"] = f"{incr:+d}"
    if schedule is not None:
        if schedule_target is None:
            raise ConfigError("schedule needs schedule_target: the subject to publish to")
        merged["Nats-Schedule"] = _schedule(schedule)
    if schedule_target is not None:
        merged["Nats-Schedule-Target"] = _scheduled("schedule_target", schedule_target, schedule)
    if schedule_source is not None:
        merged["Nats-Schedule-Source"] = _scheduled("schedule_source", schedule_source, schedule)
    if schedule_ttl is not None:
        ttl = _ttl(schedule_ttl, "schedule_ttl")
        merged["Nats-Schedule-TTL"] = _scheduled("schedule_ttl", ttl, schedule)
    if schedule_time_zone is not None:
        zone = _scheduled("schedule_time_zone", schedule_time_zone, schedule)
        merged["Nats-Schedule-Time-Zone"] = zone
    if schedule_rollup is not None:
        if schedule_rollup != "sub":
            raise ConfigError("schedule_rollup must be 'sub'")
        merged["Nats-Schedule-Rollup"] = _scheduled("schedule_rollup", schedule_rollup, schedule)
    return merged, msg_id


def stream_header(expected_stream: str | None) -> dict[str, str]:
    """The header of a message that only this stream may take; none for None. Raises ConfigError."""
    if expected_stream is None:
        return {}
    return {"Nats-Expected-Stream": check_name("stream", expected_stream)}


def _message_id(msg_id: str | Auto | None, given: dict[str, Any]) -> str | None:
    """The id that is sent: the parameter, else one among the headers, else a new one if wanted."""
    if isinstance(msg_id, str):
        if not msg_id:
            raise ConfigError("msg_id must be a non-empty str, AUTO or None")
        return msg_id
    if msg_id is not None and msg_id is not AUTO:
        raise ConfigError("msg_id must be a non-empty str, AUTO or None")
    found = given.get(MSG_ID)
    if found:
        first = found if isinstance(found, (str, bytes)) else next(iter(found))
        return first.decode() if isinstance(first, bytes) else str(first)
    return next_nuid() if msg_id is AUTO else None


def _sequence(name: str, number: int) -> str:
    return str(check_whole(name, number, least=0))


def _scheduled(name: str, value: str, schedule: object) -> str:
    if schedule is None:
        raise ConfigError(f"{name} needs schedule")
    return value


def _ttl(ttl: Any, name: str) -> str:
    if ttl == "never":
        return "never"
    if isinstance(ttl, str):
        raise ConfigError(f"{name} must be seconds, a timedelta or 'never'")
    seconds = to_seconds(ttl, name)
    if not 1 <= seconds < 2**63 / 1e9:
        raise ConfigError(f"{name} must be 1 second or more, and less than 292 years")
    return f"{round(seconds * 1000)}ms"


def _schedule(schedule: str | datetime | timedelta) -> str:
    if isinstance(schedule, str):
        return schedule
    if isinstance(schedule, timedelta):
        seconds = schedule.total_seconds()
        if seconds < 1:
            raise ConfigError("a schedule repeats after 1 second or more")
        return f"@every {round(seconds * 1000)}ms"
    if not isinstance(schedule, datetime):
        raise ConfigError(
            "schedule must be a datetime (once), a timedelta (again and again) or a pattern as text"
        )
    if schedule.tzinfo is None:
        raise ConfigError("schedule must be a datetime with a time zone")
    utc = schedule.astimezone(timezone.utc)
    return f"@at {utc.strftime('%Y-%m-%dT%H:%M:%S')}.{utc.microsecond:06d}Z"
