"""The requests about the state of one stream, and about the streams that have a subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds
from jetsync._printable import printable
from jetsync.errors import APIError, Error
from jetsync.jetstream.api import API
from jetsync.jetstream.config.stream import StreamConfig
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.protocol.subjects import check_name, check_subscribe_subject

if TYPE_CHECKING:
    from jetsync.client.port import Exchange

__all__ = ["info_operation", "stream_info", "tell_whose_subjects"]

_LOOKUP = 1.0
"""Seconds to find the stream that has a subject: an error that is known already waits for it."""


def info_operation(name: str) -> str:
    """Return the operation that looks a stream up."""
    return f"STREAM.INFO.{check_name('stream', name)}"


def stream_info(
    api: API,
    name: str,
    timeout: Seconds | None,
    *,
    subjects_filter: str | None = None,
    deleted: bool = False,
    ahead: Exchange | None = None,
) -> StreamInfo:
    """Look a stream up; ``subjects_filter`` brings message counts of subjects along, every page of
    them, ``deleted`` the interior deletes. ``ahead``: the exchange that has asked already, without
    either. Blocks; raises StreamNotFoundError, TimeoutError."""
    operation = info_operation(name)
    deadline = api.deadline(timeout)
    body: dict[str, Any] = {}
    if subjects_filter is not None:
        body["subjects_filter"] = check_subscribe_subject(subjects_filter)
    if deleted:
        body["deleted_details"] = True
    answer = api.request(
        operation, body or None, timeout=deadline.remaining(), repeatable=True, ahead=ahead
    )
    subjects = (answer.get("state") or {}).get("subjects")
    # Subjects come in pages of 100,000.
    while subjects and len(subjects) < int(answer.get("total", 0)):
        page = api.request(
            operation,
            {**body, "offset": len(subjects)},
            timeout=deadline.remaining(),
            repeatable=True,
        )
        more = (page.get("state") or {}).get("subjects") or {}
        if not more:
            break
        subjects.update(more)
    return StreamInfo.from_wire(answer)


def tell_whose_subjects(
    api: API, error: APIError, config: StreamConfig, deadline: Deadline
) -> None:
    """Add to the ``error`` of a refused stream which other stream has one of its subjects.

    Blocks at most a second, and never longer than ``deadline``. The error stays as it is when the
    other stream is not found: without permission to list names, or when no answer comes in time.
    """
    left = Deadline(deadline.within(_LOOKUP))
    try:
        for subject in config.subjects or [config.name]:
            filtered = {"subject": subject}
            for name in api.pages("STREAM.NAMES", "streams", filtered, timeout=left.remaining()):
                if name != config.name:
                    taken = f"stream {printable(str(name))!r} takes messages of {subject!r} already"
                    error.args = (f"{error}: {taken}",)
                    return
    except Error:
        return
