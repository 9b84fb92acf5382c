"""The JSON API of JetStream without the library's own requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jetsync.jetstream._wire import WireObject
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.config.stream import (
    StreamConfig,
)
from jetsync.jetstream.config.stream_info import (
    StreamInfo,
)

API = Callable[..., dict[str, Any]]


def ask_js(api: API, operation: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return api(f"$JS.API.{operation}", body)


def put_stream(api: API, config: StreamConfig) -> StreamInfo:
    return StreamInfo.from_wire(ask_js(api, f"STREAM.CREATE.{config.name}", config.to_wire()))


def put_consumer(api: API, config: ConsumerConfig, **more: Any) -> ConsumerInfo:
    config.validate()
    name = config.name or config.durable_name
    operation = f"CONSUMER.CREATE.S.{name}"
    body = {"stream_name": "S", "config": config.to_wire(), **more}
    return ConsumerInfo.from_wire(ask_js(api, operation, body))


def leftovers(value: Any) -> list[str]:
    """Name every key, however deep inside, that was read and not understood."""
    if isinstance(value, Mapping):
        return [name for one in value.values() for name in leftovers(one)]
    if isinstance(value, list):
        return [name for one in value for name in leftovers(one)]
    if not isinstance(value, WireObject):
        return []
    inside = [getattr(value, field.name) for field in dataclasses.fields(value)]
    return [f"{type(value).__name__}.{key}" for key in value.extra] + leftovers(inside)


def without_server_metadata(config: Any) -> Any:
    own = {key: value for key, value in config.metadata.items() if not key.startswith("_nats.")}
    return dataclasses.replace(config, metadata=own)
