"""Buckets and their entries as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jetsync._printable import printable
from jetsync.cli import stream_views, values
from jetsync.cli.output import Fields, Output, Table

__all__ = ["entries", "entry", "fields", "line", "status", "table"]

_PREFIX = "KV_"
"""The beginning of the name of the stream of a bucket."""


def entry(found: Any) -> dict[str, object]:
    """Return an entry for JSON."""
    return {
        "bucket": found.bucket,
        "key": found.key,
        "revision": found.revision,
        "operation": found.operation,
        "created": found.created,
        **values.body(found.value or b""),
    }


def line(out: Output, found: Any) -> str:
    """Return an entry as a line."""
    title = out.style("bold", printable(found.key))
    head = f"[{found.revision:,}] {found.operation.value} {title}"
    return head if found.operation != "PUT" else f"{head}: {values.body_text(found.value)}"


def entries(found: Sequence[Any]) -> Table:
    """Return a list of entries."""
    return Table(
        ("KEY", ">REVISION", "OPERATION", "CREATED", "VALUE"),
        [
            (
                one.key,
                one.revision,
                one.operation,
                values.format_time(one.created),
                _short(one.value or b""),
            )
            for one in found
        ],
        "nothing",
    )


def _short(data: bytes) -> str:
    text = data[:60].decode("utf-8", "backslashreplace")
    return text + ("..." if len(data) > 60 else "")


def status(found: Any) -> dict[str, object]:
    """Return a bucket for JSON."""
    return {"config": found.config, "stream_info": found.stream_info}


def table(found: Sequence[Any]) -> Table:
    """Return the list of buckets."""
    return Table(
        ("BUCKET", ">VALUES", ">SIZE", ">HISTORY", "TTL", "DESCRIPTION"),
        [
            (
                one.bucket,
                one.stream_info.state.messages,
                values.format_size(one.stream_info.state.bytes),
                one.stream_info.config.max_msgs_per_subject,
                _life(one.stream_info.config.max_age),
                one.stream_info.config.description,
            )
            for one in found
        ],
        "no buckets",
    )


def fields(found: Any) -> Fields:
    """Return all that there is to know about a bucket."""
    info = found.stream_info
    config = info.config
    return Fields(
        f"Bucket {found.bucket}, created {values.format_time(info.created)}",
        {
            "Configuration": {
                "Description": config.description,
                "Mirror of": _origin(config.mirror) if config.mirror else None,
                "Sources": [_origin(source) for source in config.sources],
                "History": config.max_msgs_per_subject,
                "TTL": _life(config.max_age),
                "Value size": values.format_size(config.max_msg_size),
                "Size": values.format_size(config.max_bytes),
                "Storage": config.storage,
                "Replicas": config.num_replicas,
                "Placement": stream_views.placed(config.placement),
                "Compressed": str(config.compression) != "none",
                "Published again": stream_views.republished(config.republish),
            },
            "Copied from": {
                _bucket(name): text for name, text in stream_views.origins(info).items()
            },
            "State": {
                "Values": info.state.messages,
                "Bytes": values.format_size(info.state.bytes),
                "Revision": info.state.last_seq,
            },
        },
    )


def _bucket(stream: str) -> str:
    return stream.removeprefix(_PREFIX)


def _origin(source: Any) -> str:
    api = source.external.api if source.external else ""
    return _bucket(source.name) + (f" by {api}" if api else "")


def _life(seconds: float) -> str:
    return values.format_duration(seconds) if seconds else "none"
