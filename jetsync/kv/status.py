"""KeyValueStatus: what a bucket holds and how it is configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jetsync.jetstream.streams.info import StreamInfo
from jetsync.kv.config import KeyValueConfig, config_of
from jetsync.kv.names import STREAM_PREFIX

__all__ = ["KeyValueStatus"]


@dataclass(frozen=True)
class KeyValueStatus:
    """The state of a bucket at one moment (ADR-8). Immutable."""

    stream_info: StreamInfo
    """What the server said about the stream that holds the bucket."""

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self.stream_info.config.name.removeprefix(STREAM_PREFIX)

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
    def ttl(self) -> float:
        """How long a revision is kept, in seconds; 0 for ever."""
        return self.stream_info.config.max_age

    @property
    def limit_marker_ttl(self) -> float:
        """How long a marker stays where a key has aged out, in seconds; 0: there are none."""
        return self.stream_info.config.subject_delete_marker_ttl

    @property
    def is_compressed(self) -> bool:
        """Whether the file store is compressed."""
        return self.config.compression

    @property
    def backing_store(self) -> str:
        """What the bucket is made of: always ``"JetStream"``."""
        return "JetStream"

    @property
    def metadata(self) -> Mapping[str, str]:
        """Names and values that were given to the bucket, and the server's own."""
        return self.stream_info.config.metadata
