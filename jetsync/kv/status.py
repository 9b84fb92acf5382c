"""KeyValueStatus: what a bucket holds and how it is configured."""

from __future__ import annotations

from typing import ClassVar

from jetsync.jetstream.buckets.status import BucketStatus
from jetsync.kv.config import KeyValueConfig, config_of
from jetsync.kv.names import STREAM_PREFIX

__all__ = ["KeyValueStatus"]


class KeyValueStatus(BucketStatus):
    """The state of a bucket at one moment (ADR-8). Immutable."""

    _prefix: ClassVar[str] = STREAM_PREFIX

    @property
    def config(self) -> KeyValueConfig:
        """Configuration of the bucket."""
        return config_of(self.stream_info.config)

    @property
    def values(self) -> int:
        """How many entries there are, with those in the history and deletions."""
        return self.stream_info.state.messages

    @property
    def bytes(self) -> int:
        """How much it stores."""
        return self.stream_info.state.bytes

    @property
    def history(self) -> int:
        """How many revisions are kept of each key."""
        return self.stream_info.config.max_msgs_per_subject

    @property
    def limit_marker_ttl(self) -> float:
        """How long a marker stays where a key has aged out, in seconds; 0: there are none."""
        return self.stream_info.config.subject_delete_marker_ttl
