"""ObjectStoreStatus: what a bucket of objects holds and how it is configured."""

from __future__ import annotations

from typing import ClassVar

from jetsync.jetstream.buckets.status import BucketStatus
from jetsync.objectstore.config import ObjectStoreConfig, config_of
from jetsync.objectstore.names import STREAM_PREFIX

__all__ = ["ObjectStoreStatus"]


class ObjectStoreStatus(BucketStatus):
    """The state of a bucket at one moment (ADR-20). Immutable."""

    _prefix: ClassVar[str] = STREAM_PREFIX

    @property
    def config(self) -> ObjectStoreConfig:
        """Configuration of the bucket."""
        return config_of(self.stream_info.config)

    @property
    def description(self) -> str | None:
        """The purpose of the bucket."""
        return self.stream_info.config.description

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
