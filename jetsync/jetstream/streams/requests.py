"""The request about the state of one stream."""

from __future__ import annotations

from typing import Any

from jetsync._deadline import Seconds
from jetsync.jetstream.api import API
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.protocol.subjects import check_name, check_subscribe_subject

__all__ = ["stream_info"]


def stream_info(
    api: API,
    name: str,
    timeout: Seconds | None,
    *,
    subjects_filter: str | None = None,
    deleted: bool = False,
) -> StreamInfo:
    """Look a stream up; ``subjects_filter`` brings message counts of subjects along, every page of
    them, ``deleted`` the interior deletes. Blocks; raises StreamNotFoundError, TimeoutError."""
    operation = f"STREAM.INFO.{check_name('stream', name)}"
    deadline = api.deadline(timeout)
    body: dict[str, Any] = {}
    if subjects_filter is not None:
        body["subjects_filter"] = check_subscribe_subject(subjects_filter)
    if deleted:
        body["deleted_details"] = True
    answer = api.request(operation, body or None, timeout=deadline.remaining(), repeatable=True)
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
