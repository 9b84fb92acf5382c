"""When a message is due and when it is too old, as its headers and properties say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

__all__ = ["due_time", "expiration_of", "is_too_old", "lifetime_of", "without_eta"]

_AT_ONCE = timedelta(milliseconds=50)
_EXPIRED_KEPT = 86_400.0
"""Seconds."""


def due_time(message: Mapping[str, Any]) -> datetime | None:
    """Return the time of Celery's header ``eta``, if it is ahead and says its time zone."""
    text = (message.get("headers") or {}).get("eta")
    if not isinstance(text, str):
        return None
    if text.endswith("Z"):
        text = text[:-1] + "+00:00"
    try:
        due = datetime.fromisoformat(text)
    except ValueError:
        return None  # Celery will say so when it handles the message
    if due.tzinfo is None or due - datetime.now(timezone.utc) < _AT_ONCE:
        return None
    return due


def without_eta(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers of a task that the server keeps until it is due: the worker has nothing to
    wait for. Its timer would check the task up to two seconds later. ``x-eta`` says the time."""
    if "task" not in headers:
        return dict(headers)
    return {**headers, "eta": None, "x-eta": headers["eta"]}


def expiration_of(message: Mapping[str, Any]) -> float | None:
    """Return after how many seconds a message is of no use, as its sender says.

    None for a task that tells when it expires: the worker that gets it gives it the result
    ``REVOKED``.
    """
    milliseconds = message["properties"].get("expiration")
    if milliseconds is None or is_expiring_task(message):
        return None
    return max(0.0, float(milliseconds) / 1000)


def lifetime_of(message: Mapping[str, Any]) -> float | None:
    """Return after how many seconds the server may remove a message; None: never.

    A task that has expired is kept for a day more, so that a worker can say so.
    """
    if not is_expiring_task(message):
        return expiration_of(message)
    milliseconds = message["properties"].get("expiration")
    return None if milliseconds is None else max(0.0, float(milliseconds) / 1000) + _EXPIRED_KEPT


def is_expiring_task(message: Mapping[str, Any]) -> bool:
    """Whether it is a task of Celery whose headers say when it expires."""
    headers = message.get("headers") or {}
    return "task" in headers and headers.get("expires") is not None


def is_too_old(stored: datetime, limits: list[float | None]) -> bool:
    """Whether a message that was stored at that time is older than one of the limits, in seconds.

    The server removes messages at whole seconds; this is about the fraction behind them.
    """
    least = min((limit for limit in limits if limit is not None), default=None)
    return least is not None and (datetime.now(timezone.utc) - stored).total_seconds() > least
