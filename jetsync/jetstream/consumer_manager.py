"""ConsumerManager: the calls of JetStream that make, change, find and delete consumers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Seconds
from jetsync.errors import ConfigError
from jetsync.jetstream._wire import build, format_time
from jetsync.jetstream.api import API
from jetsync.jetstream.consumer import Consumer
from jetsync.jetstream.consumer_config import ConsumerConfig
from jetsync.jetstream.consumer_info import ConsumerInfo
from jetsync.protocol.ids import next_nuid
from jetsync.protocol.subjects import check_name

if TYPE_CHECKING:
    from jetsync.client import Connection

__all__ = ["ConsumerManager"]


class ConsumerManager:
    """What JetStream has for consumers. Thread-safe."""

    _nc: Connection
    _api: API

    def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Any,
    ) -> Consumer:
        """Create a consumer from a ConsumerConfig or its fields; without a name an ephemeral one.

        An identical consumer that exists is returned; a different one under this name raises
        ConsumerExistsError."""
        return self._put_consumer(stream, build(ConsumerConfig, config, fields), "create", timeout)

    def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Any,
    ) -> Consumer:
        """Change an existing consumer. Raises ConsumerDoesNotExistError."""
        return self._put_consumer(stream, build(ConsumerConfig, config, fields), "update", timeout)

    def create_or_update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Any,
    ) -> Consumer:
        """Make sure that a consumer with this configuration exists."""
        return self._put_consumer(stream, build(ConsumerConfig, config, fields), None, timeout)

    def _put_consumer(
        self, stream: str, config: ConsumerConfig, action: str | None, timeout: Seconds | None
    ) -> Consumer:
        check_name("stream", stream)
        wire = config.to_wire(include_extra=action == "update")
        name = config.name or config.durable_name
        if name is None:
            if action == "update":
                raise ConfigError("updating a consumer needs its name or durable_name")
            name = next_nuid()
            wire["name"] = name
        operation = f"CONSUMER.CREATE.{stream}.{check_name('consumer', name)}"
        if config.filter_subject:
            operation += f".{config.filter_subject}"
        if config.durable_name is None and "inactive_threshold" not in wire:
            # The server adds this default itself; sending it keeps a repeated create identical.
            wire["inactive_threshold"] = 5_000_000_000
        body: dict[str, Any] = {"stream_name": stream, "config": wire}
        if action is not None:
            body["action"] = action
        answer = self._api.request(operation, body, timeout=timeout)
        return Consumer(self, ConsumerInfo.from_wire(answer))

    def consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> Consumer:
        """Look a consumer up. Raises ConsumerNotFoundError."""
        return Consumer(self, self._consumer_info(stream, name, timeout))

    def _consumer_info(self, stream: str, name: str, timeout: Seconds | None) -> ConsumerInfo:
        operation = f"CONSUMER.INFO.{check_name('stream', stream)}.{check_name('consumer', name)}"
        return ConsumerInfo.from_wire(
            self._api.request(operation, timeout=timeout, repeatable=True)
        )

    def delete_consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a consumer. Raises ConsumerNotFoundError."""
        self._api.request(
            f"CONSUMER.DELETE.{check_name('stream', stream)}.{check_name('consumer', name)}",
            timeout=timeout,
        )

    def consumers(self, stream: str) -> Iterator[ConsumerInfo]:
        """Iterate over the consumers of a stream."""
        for item in self._api.pages(f"CONSUMER.LIST.{check_name('stream', stream)}", "consumers"):
            yield ConsumerInfo.from_wire(item)

    def consumer_names(self, stream: str) -> Iterator[str]:
        """Iterate over the names of the consumers of a stream."""
        return self._api.pages(f"CONSUMER.NAMES.{check_name('stream', stream)}", "consumers")

    def pause_consumer(
        self, stream: str, name: str, until: datetime, *, timeout: Seconds | None = None
    ) -> None:
        """Deliver nothing until a point in time (server 2.11)."""
        self._pause(stream, name, {"pause_until": format_time(until)}, timeout)

    def resume_consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> None:
        """Undo :meth:`pause_consumer`."""
        past = datetime(1970, 1, 2, tzinfo=timezone.utc)
        self._pause(stream, name, {"pause_until": format_time(past)}, timeout)

    def _pause(self, stream: str, name: str, body: dict[str, Any], timeout: Seconds | None) -> None:
        self._api.request(
            f"CONSUMER.PAUSE.{check_name('stream', stream)}.{check_name('consumer', name)}",
            body,
            timeout=timeout,
        )
