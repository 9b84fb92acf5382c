"""Options of the sink: where rows go and how a repeated row is recognised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.key_values import check_bucket, stream_of
from jetsync.spark.options import LinkOptions, Values, parse_seconds

__all__ = ["INVALID_SUBJECT", "WRITE_OPTIONS", "WriteOptions"]

WRITE_OPTIONS = (
    "subject",
    "publishStream",
    "bucket",
    "dedup",
    "queryId",
    "contentIdRows",
    "minDuplicateWindow",
    "maxInflight",
    "maxInflightBytes",
    "publishTimeout",
    "publishRetries",
    "atomic",
    "commitMarker",
    "onOverwrite",
)

DEDUP = ("content", "source", "column", "position", "none")
ATOMIC = ("none", "chunk")

INVALID_SUBJECT = r"(^|\.)[*>]?(\.|$)|[\s\x00]|^\$(JS|SYS)\."
"""An empty token, one that is a wildcard, or white space; and the beginning of ``$JS.`` and
``$SYS.``, where a message is a request to the servers. Understood by ``re`` and by Arrow."""


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """The checked options of one write. Picklable; the only thing that travels to executors."""

    link: LinkOptions
    subject: str | None = None
    publish_stream: str | None = None
    bucket: str | None = None
    dedup: str = "content"
    query_id: str | None = None
    dedup_rows: int = 1_000_000
    min_duplicate_window: float = 120.0
    small_window_fails: bool = False
    max_inflight: int = 4096
    max_inflight_bytes: int = 16 << 20
    publish_timeout: float = 5.0
    publish_retries: int = 5
    atomic: bool = False
    commit_marker: bool = False
    purge_on_overwrite: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Check every option of a write. Raises ``SparkOptionError``; never connects."""
        values = Values(options, WRITE_OPTIONS, "writes")
        window, fails = _window(values)
        bucket = values.text("bucket")
        if bucket is not None and (values.text("subject") or values.text("publishStream")):
            raise SparkOptionError(
                "option bucket names the stream and its subjects; leave subject and publishStream "
                "out",
                code="JETSYNC_OPTION_CONFLICT",
            )
        made = cls(
            link=LinkOptions.from_values(values),
            subject=_subject(values.text("subject")),
            publish_stream=(
                values.text("publishStream") if bucket is None else stream_of(check_bucket(bucket))
            ),
            bucket=bucket,
            dedup=values.choice("dedup", "content", DEDUP),
            query_id=values.text("queryId"),
            dedup_rows=values.integer("contentIdRows", 1_000_000, least=1),
            min_duplicate_window=window,
            small_window_fails=fails,
            max_inflight=values.integer("maxInflight", 4096, least=1),
            max_inflight_bytes=values.size("maxInflightBytes", 16 << 20),
            publish_timeout=values.seconds("publishTimeout", 5.0, positive=True),
            publish_retries=values.integer("publishRetries", 5),
            atomic=values.choice("atomic", "none", ATOMIC) == "chunk",
            commit_marker=values.flag("commitMarker", False),
            purge_on_overwrite=values.choice("onOverwrite", "refuse", ("refuse", "purge"))
            == "purge",
        )
        if made.commit_marker and re.search(r"[^-/_=.a-zA-Z0-9]", made.query_id or ""):
            raise values.invalid(
                "queryId", "made of letters, digits and -/_=. when commitMarker is on"
            )
        if made.purge_on_overwrite and made.subject is None and made.publish_stream is None:
            raise SparkOptionError(
                "onOverwrite=purge needs to know what to purge: give option 'subject' or "
                "'publishStream'",
                code="JETSYNC_MISSING_OPTION",
            )
        return made


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
    if subject is not None and re.search(INVALID_SUBJECT, subject):
        raise SparkOptionError(
            "option 'subject' must be one subject without wildcards, and none of the servers' own "
            f"($JS., $SYS.), got {subject!r}",
            code="JETSYNC_INVALID_OPTION",
        )
    return subject
