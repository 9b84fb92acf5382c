"""The duplicate window of a stream: the time limit of every automatic retry."""

from __future__ import annotations

from collections.abc import Iterable

from jetsync._deadline import Deadline
from jetsync.errors import APIError, DisconnectedError, Error, OutboundFullError, TimeoutError
from jetsync.jetstream.api import API
from jetsync.protocol.subjects import subject_matches

__all__ = ["DEFAULT_WINDOW", "RETRY_SHARE", "repeatable_for"]

DEFAULT_WINDOW = 120.0
"""Seconds: the default of a server, and of this client when it has no permission to ask."""
RETRY_SHARE = 0.8
"""The share of the window within which a copy is sent, so that it arrives inside the window."""


def repeatable_for(api: API, subjects: Iterable[str], timeout: float) -> float | None:
    """Return for how many seconds messages on these subjects may be sent again with their ids.

    Asks the streams, since a copy that comes later is stored a second time. None: no answer within
    ``timeout`` seconds, so it is not known now. The answer proves too that the link carries
    data both ways. Where the streams cannot be asked (no permission, in another domain) it is the
    share of the default window.
    """
    deadline = Deadline(timeout)
    shortest = DEFAULT_WINDOW
    known: list[str] = []
    for subject in subjects:
        if any(subject_matches(pattern, subject) for pattern in known):
            continue
        try:
            found = _ask(api, subject, deadline)
        except (TimeoutError, DisconnectedError, OutboundFullError):
            return None
        except APIError as error:
            if error.retryable:
                return None
            continue
        except Error:  # no permission to ask: use the default
            continue
        if found is not None:
            seconds, patterns = found
            shortest = min(shortest, seconds)
            known += patterns
    return shortest * RETRY_SHARE


def _ask(api: API, subject: str, deadline: Deadline) -> tuple[float, list[str]] | None:
    """The window of the stream that takes a subject, and all its subjects."""
    body = {"subject": subject}
    names = api.request("STREAM.NAMES", body, timeout=deadline.within(60.0), repeatable=True)
    for name in names.get("streams") or ():
        info = f"STREAM.INFO.{name}"
        config = api.request(info, timeout=deadline.within(60.0), repeatable=True)["config"]
        nanoseconds = config.get("duplicate_window") or DEFAULT_WINDOW * 1e9
        return nanoseconds / 1e9, list(config.get("subjects") or (name,))
    return None
