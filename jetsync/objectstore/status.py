"""ObjectStoreStatus: what a bucket of objects holds and how it is configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jetsync.jetstream.streams.info import StreamInfo
from jetsync.objectstore.config import ObjectStoreConfig, config_of
from jetsync.objectstore.names import STREAM_PREFIX

__all__ = ["ObjectStoreStatus"]


@dataclass(frozen=True)
class ObjectStoreStatus:
    """The state of a bucket at one moment (ADR-20). Immutable."""

    stream_info: StreamInfo
    """What the server said about the stream that holds the bucket."""

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self.stream_info.config.name.removeprefix(STREAM_PREFIX)

    @property
    def config(self) -> ObjectStoreConfig:
        """Configuration of the bucket."""
        return config_of(self.stream_info.config)

    @property
    def description(self) -> str | None:
        """What the bucket is for."""
        return self.stream_info.config.description

    @property
    def metadata(self) -> Mapping[str, str]:
        """Names and values that were given to the bucket, and the server's own."""
        return self.stream_info.config.metadata

    @property
    def ttl(self) -> float:
        """How long an object is kept, in seconds; 0 for ever."""
        return self.stream_info.config.max_age

    @property
    def storage(self) -> str:
        """Where it is kept: ``"file"`` or ``"memory"``."""
        return self.stream_info.config.storage

    @property
    def replicas(self) -> int:
        """How many servers hold it."""
        return self.stream_info.config.num_replicas

    @property
    def sealed(self) -> bool:
        """Whether nothing can be changed any more."""
        return self.stream_info.config.sealed

    @property
    def size(self) -> int:
        """Bytes of everything in it: chunks, their subjects and headers, descriptions."""
        return self.stream_info.state.bytes

    @property
    def is_compressed(self) -> bool:
        """Whether the file store is compressed."""
        return self.config.compression

    @property
    def backing_store(self) -> str:
        """What the bucket is made of: always ``"JetStream"``."""
        return "JetStream"
