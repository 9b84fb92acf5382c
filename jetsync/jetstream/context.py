"""JetStream: the entry to streams, consumers and publishing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync.errors import ConfigError
from jetsync.jetstream.api import API
from jetsync.jetstream.publish.publisher import Publisher
from jetsync.jetstream.streams.manager import StreamManager
from jetsync.jetstream.subscribe.workflow import Subscriber

if TYPE_CHECKING:
    from jetsync.client import Connection

__all__ = ["JetStream"]


class JetStream(Publisher, StreamManager, Subscriber):
    """Streams, consumers and publishing on one connection. Made by ``Connection.jetstream``.

    Thread-safe. Every call blocks up to ``timeout`` seconds (default: this object's) and raises the
    APIError subclass of the server's answer, JetStreamNotEnabledError, TimeoutError,
    DisconnectedError or ConnectionClosedError.
    """

    def __init__(
        self,
        nc: Connection,
        *,
        domain: str | None,
        api_prefix: str | None,
        timeout: float,
        max_pending: int,
        auto_msg_id: bool,
    ) -> None:
        if max_pending < 1:
            raise ConfigError("max_pending must be 1 or more")
        self._nc = nc
        self._api = API(nc, domain=domain, api_prefix=api_prefix, timeout=timeout)
        self._max_pending = max_pending
        self._auto_msg_id = auto_msg_id

    def __repr__(self) -> str:
        return f"JetStream({self._api.prefix!r} on {self._nc!r})"
