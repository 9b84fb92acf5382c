"""Options of the sink: where rows go and how a repeated row is recognised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.options import LinkOptions, Values, parse_seconds

__all__ = ["WRITE_OPTIONS", "WriteOptions"]

WRITE_OPTIONS = (
    "subject",
    "publishStream",
    "dedup",
    "queryId",
    "minDuplicateWindow",
    "maxInflight",
    "maxInflightBytes",
    "publishTimeout",
    "publishRetries",
    "atomic",
    "commitMarker",
    "onOverwrite",
)

DEDUP = ("content", "column", "position", "none")


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """The checked options of one write. Picklable; the only thing that travels to executors."""

    link: LinkOptions
    subject: str | None = None
    publish_stream: str | None = None
    dedup: str = "content"
    query_id: str | None = None
    min_duplicate_window: float = 120.0
    small_window_fails: bool = False
    max_inflight: int = 4096
    publish_timeout: float = 5.0
    publish_retries: int = 5

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Check every option of a write. Raises ``SparkOptionError``; never connects."""
        values = Values(options, WRITE_OPTIONS, "writes")
        values.unsupported("atomic", "none")
        values.unsupported("commitMarker", "false")
        values.unsupported("onOverwrite")
        values.unsupported("maxInflightBytes")
        window, fails = _window(values)
        return cls(
            link=LinkOptions.from_values(values),
            subject=_subject(values.text("subject")),
            publish_stream=values.text("publishStream"),
            dedup=values.choice("dedup", "content", DEDUP),
            query_id=values.text("queryId"),
            min_duplicate_window=window,
            small_window_fails=fails,
            max_inflight=values.integer("maxInflight", 4096, least=1),
            publish_timeout=values.seconds("publishTimeout", 5.0, positive=True),
            publish_retries=values.integer("publishRetries", 5),
        )


def _window(values: Values) -> tuple[float, bool]:
    text = values.text("minDuplicateWindow") or "2m"
    fails = text.lower().startswith("error:")
    try:
        return parse_seconds(text[6:] if fails else text), fails
    except ValueError:
        raise values.invalid(
            "minDuplicateWindow", "a duration such as 2m, or error:2m to fail"
        ) from None


def _subject(subject: str | None) -> str | None:
    if subject is None:
        return None
    tokens = subject.split(".")
    if "" in tokens or "*" in tokens or ">" in tokens or re.search(r"\s", subject):
        raise SparkOptionError(
            f"option 'subject' must be one subject without wildcards, got {subject!r}",
            code="JETSYNC_INVALID_OPTION",
        )
    return subject
