"""BucketStatus: the state that both kinds of bucket have, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from jetsync.jetstream.config.stream import StoreCompression
from jetsync.jetstream.config.stream_info import StreamInfo

__all__ = ["BucketStatus"]


@dataclass(frozen=True)
class BucketStatus:
    """The state of a bucket at one moment. Immutable."""

    stream_info: StreamInfo
    """The info of the stream that holds the bucket."""

    _prefix: ClassVar[str]
    """The prefix of the stream's name before the name of the bucket."""

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self.stream_info.config.name.removeprefix(self._prefix)

    @property
    def ttl(self) -> float:
        """How long what is stored is kept, in seconds; 0 for ever."""
        return self.stream_info.config.max_age

    @property
    def is_compressed(self) -> bool:
        """Whether the file store is compressed."""
        return self.stream_info.config.compression != StoreCompression.NONE

    @property
    def backing_store(self) -> str:
        """The kind of store: always ``"JetStream"``."""
        return "JetStream"

    @property
    def metadata(self) -> Mapping[str, str]:
        """Names and values that were given to the bucket, and the server's own."""
        return self.stream_info.config.metadata
