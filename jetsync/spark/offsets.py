"""Spark offsets: how far each stream was read.

The JSON is ``{"streams": {"ORDERS": {"created": "...", "seq": 42}}, "v": 1}``: ``seq`` is the last
sequence that belongs to the past, ``created`` tells a stream from a later one of the same name.

An end offset may also carry ``"base": {"ORDERS": 17}``: the batch that it ends begins after 17,
whatever Spark says its start was. Spark asks a source for its initial offset again when it repeats
the first batch, and the answer to ``latest`` would have moved; so the first end offset pins it.

``"filters"`` is a hash of option filterSubjects, by which a restart with other filters is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jetsync.spark.errors import SparkSourceError

__all__ = ["Offset", "StreamOffset"]

VERSION = 1


@dataclass(frozen=True)
class StreamOffset:
    """How far one stream is read: the last sequence included, and the stream's identity."""

    seq: int
    created: str


@dataclass(frozen=True)
class Offset:
    """The offset of each stream, and the pinned beginnings if there are any. Immutable."""

    streams: Mapping[str, StreamOffset]
    base: Mapping[str, int] = field(default_factory=dict)
    filters: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what Spark stores. Equal offsets give equal text (Spark compares texts)."""
        found: dict[str, Any] = {}
        if self.base:
            found["base"] = {name: self.base[name] for name in sorted(self.base)}
        if self.filters:
            found["filters"] = self.filters
        found["streams"] = {
            name: {"created": self.streams[name].created, "seq": self.streams[name].seq}
            for name in sorted(self.streams)
        }
        found["v"] = VERSION
        return found

    @classmethod
    def from_dict(cls, value: Any) -> Offset:
        """Read an offset from a checkpoint; ``SparkSourceError`` if it is not one of ours."""
        try:
            version = value["v"]
            streams = {
                str(name): StreamOffset(int(reached["seq"]), str(reached["created"]))
                for name, reached in value["streams"].items()
            }
            base = {str(name): int(seq) for name, seq in value.get("base", {}).items()}
            filters = str(value.get("filters", ""))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise SparkSourceError(
                f"the checkpoint holds {value!r}, which is not a jetstream offset; was it written "
                "by another source? Use a new checkpointLocation",
                code="JETSYNC_INVALID_OFFSET",
            ) from None
        if version != VERSION:
            raise SparkSourceError(
                f"the checkpoint holds an offset of version {version}, this is version {VERSION}; "
                "use the jetsync that wrote it or newer",
                code="JETSYNC_INVALID_OFFSET",
            )
        return cls(streams, base, filters)

    @classmethod
    def initial(cls, streams: Mapping[str, StreamOffset], filters: str = "") -> Offset:
        """Return the beginning of a new query: its own base."""
        return cls(streams, {name: reached.seq for name, reached in streams.items()}, filters)

    @property
    def is_beginning(self) -> bool:
        """Whether nothing was read yet since the base was set."""
        return bool(self.base) and all(
            self.base.get(name) == reached.seq for name, reached in self.streams.items()
        )

    def advanced(
        self, streams: Mapping[str, StreamOffset], jumps: Mapping[str, int], filters: str = ""
    ) -> Offset:
        """Return the end of the batch that starts here and reads each stream up to ``streams``.

        ``jumps`` moves the beginning of the batch for some streams: what lies before is known to
        hold nothing for this query, or to be gone.
        """
        base = dict(self.base) if self.is_beginning else {}
        base.update(jumps)
        return Offset(streams, base, filters)
