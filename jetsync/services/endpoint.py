"""Endpoint: one subject of a service, as users see it."""

from __future__ import annotations

from collections.abc import Mapping

from jetsync.services.answering import Answering
from jetsync.services.documents import EndpointInfo, EndpointStats

__all__ = ["Endpoint"]


class Endpoint:
    """One endpoint of a service. Made by ``add_endpoint`` and ``endpoint``. Thread-safe."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    @property
    def name(self) -> str:
        """Its name."""
        return self._answering.name

    @property
    def subject(self) -> str:
        """Where it listens, the subjects of its groups included."""
        return self._answering.subject

    @property
    def queue_group(self) -> str | None:
        """The queue group that shares the requests; None: every instance gets every request."""
        return self._answering.queue_group

    @property
    def metadata(self) -> Mapping[str, str]:
        """A copy of its metadata."""
        return self._answering.metadata

    def info(self) -> EndpointInfo:
        """Return its description. Does not block."""
        return self._answering.info()

    def stats(self) -> EndpointStats:
        """Return its statistics. Does not block, but for a ``stats_handler``."""
        return self._answering.stats()

    def reset(self) -> None:
        """Count from zero again. Does not block."""
        self._answering.reset()

    def __repr__(self) -> str:
        return repr(self._answering)
