"""publish: one message, and what is known about it afterwards (ADR-22)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from jetsync._core.outbound import encode_headers
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync.errors import (
    APIError,
    ConfigError,
    DisconnectedError,
    NoRespondersError,
    NotStoredError,
    OutboundFullError,
    PublishUnknownError,
    TimeoutError,
)
from jetsync.headers import HeaderInput, Headers
from jetsync.jetstream.puback import PubAck, decode_puback
from jetsync.protocol.ids import next_nuid

if TYPE_CHECKING:
    from jetsync.client import Connection

__all__ = ["AUTO", "Auto", "publish", "publish_headers"]

# A retry with the same id is safe inside the stream's duplicate window (two minutes by default).
RETRY_WINDOW = 100.0
_RETRY_WAIT = 0.25


class Auto(enum.Enum):
    """The type of :data:`AUTO`."""

    AUTO = "automatic message id"


AUTO = Auto.AUTO
"""``msg_id=AUTO``: give the message an id, so that a retry is never stored twice."""


def publish_headers(
    headers: HeaderInput | None,
    *,
    msg_id: str | Auto | None,
    rollup: str | None = None,
    expected_stream: str | None = None,
    expected_last_seq: int | None = None,
    expected_last_subject_seq: int | None = None,
    expected_last_subject_filter: str | None = None,
    expected_last_msg_id: str | None = None,
    ttl: Seconds | str | None = None,
) -> tuple[dict[str, Any], str | None]:
    """Return the headers of a publish and its message id. Raises ConfigError."""
    merged: dict[str, Any] = {}
    if isinstance(headers, Headers):
        merged = dict(headers.to_dict())
    elif headers:
        merged = dict(headers)
    if msg_id is AUTO:
        given = merged.get("Nats-Msg-Id")
        msg_id = (given if isinstance(given, str) else given[0]) if given else next_nuid()
    if msg_id is not None:
        if not isinstance(msg_id, str) or not msg_id:
            raise ConfigError("msg_id must be a non-empty str, AUTO or None")
        merged["Nats-Msg-Id"] = msg_id
    if rollup is not None:
        if rollup not in ("sub", "all"):
            raise ConfigError("rollup must be 'sub' or 'all'")
        merged["Nats-Rollup"] = rollup
    if expected_last_subject_filter is not None and expected_last_subject_seq is None:
        raise ConfigError("expected_last_subject_filter needs expected_last_subject_seq")
    for name, value in (
        ("Nats-Expected-Stream", expected_stream),
        ("Nats-Expected-Last-Sequence", expected_last_seq),
        ("Nats-Expected-Last-Subject-Sequence", expected_last_subject_seq),
        ("Nats-Expected-Last-Subject-Sequence-Subject", expected_last_subject_filter),
        ("Nats-Expected-Last-Msg-Id", expected_last_msg_id),
    ):
        if value is not None:
            merged[name] = str(value)
    if ttl is not None:
        merged["Nats-TTL"] = _ttl(ttl)
    return merged, msg_id


def _ttl(ttl: Seconds | str) -> str:
    if ttl == "never":
        return "never"
    if isinstance(ttl, str):
        raise ConfigError("ttl must be seconds, a timedelta or 'never'")
    seconds = to_seconds(ttl, "ttl")
    if seconds < 1:
        raise ConfigError("ttl must be 1 second or more")
    return f"{round(seconds * 1000)}ms"


def publish(
    nc: Connection,
    subject: str,
    data: bytes,
    timeout: float,
    headers: dict[str, Any],
    msg_id: str | None,
) -> PubAck:
    """Publish until the stream has confirmed it or the time is over."""
    deadline = Deadline(timeout)
    repeatable = Deadline(RETRY_WINDOW)
    encode_headers(headers)  # bad headers are refused before anything else happens
    unknown = False  # an earlier attempt may have been stored
    last: Exception | None = None
    while True:
        left = deadline.within(3600.0)
        # With an id an attempt may be cut short and repeated: a request that a dying server
        # swallowed is not waited for until the end.
        attempt = max(1.0, timeout / 4) if msg_id is not None else left
        try:
            reply = nc.request(subject, data, timeout=min(attempt, left), headers=headers)
            return decode_puback(reply.data)
        except NoRespondersError as error:
            last = error  # certainly not stored by this attempt
        except OutboundFullError as error:
            last = error
        except (TimeoutError, DisconnectedError) as error:
            last, unknown = error, True
        except APIError as error:
            if not error.retryable:
                if unknown:
                    # The copy before may be in the stream although this one was refused.
                    raise PublishUnknownError(
                        f"an earlier attempt may be stored, this one was refused: {error}",
                        operation="publish",
                        msg_id=msg_id,
                    ) from error
                if isinstance(error, NotStoredError):
                    raise
                raise NotStoredError(f"{subject!r}: {error}") from error
            last = error
        if unknown and (msg_id is None or repeatable.expired):
            break
        nc._check()
        nc._pause(deadline.within(_RETRY_WAIT))
        if deadline.expired:
            break
    if unknown:
        raise PublishUnknownError(
            f"no confirmation for {subject!r} within {timeout:g} s ({last}); the message may be "
            "stored. Publishing it again with the same msg_id inside the duplicate window is safe",
            operation="publish",
            msg_id=msg_id,
        ) from last
    raise NotStoredError(f"{subject!r} was not stored within {timeout:g} s: {last}") from last
