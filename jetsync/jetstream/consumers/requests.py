"""The requests about one consumer: look it up, make it, change it, delete it.

Every room that needs a consumer of its own calls these functions with its ``API``;
``ConsumerManager`` is their public form.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from jetsync._core.ids import next_nuid
from jetsync._deadline import Deadline, Seconds
from jetsync.errors import (
    ConfigError,
    InvalidConsumerConfigError,
    JetStreamUnavailableError,
)
from jetsync.jetstream._wire import format_time
from jetsync.jetstream.api import API, reading
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.levels import consumer_needs
from jetsync.protocol.subjects import check_name

__all__ = [
    "consumer_info",
    "delete_consumer",
    "pause_consumer",
    "put_any_consumer",
    "put_consumer",
    "reset_consumer",
    "resume_consumer",
    "unpin_consumer",
]

_EPHEMERAL_THRESHOLD = 5_000_000_000
_THRESHOLD_ABOVE_LIMIT = 10153
_BLANK_WAIT = 0.25
"""Seconds after which a server is asked again that has not loaded the consumer yet."""


def _operation(verb: str, stream: str, name: str) -> str:
    return f"CONSUMER.{verb}.{check_name('stream', stream)}.{check_name('consumer', name)}"


def consumer_info(api: API, stream: str, name: str, timeout: Seconds | None) -> ConsumerInfo:
    """Look a consumer up. Blocks; raises ConsumerNotFoundError, TimeoutError."""
    operation = _operation("INFO", stream, name)
    deadline = api.deadline(timeout)
    while True:
        answer = api.request(operation, timeout=deadline.remaining(), repeatable=True)
        if not (api.is_clustered and _is_blank(answer)):
            return ConsumerInfo.from_wire(answer)
        if deadline.within(_BLANK_WAIT) < _BLANK_WAIT:
            raise JetStreamUnavailableError(
                f"the server that answered for consumer {name!r} of stream {stream!r} has not "
                "loaded its state yet"
            )
        api.port.sleep(_BLANK_WAIT)


def _is_blank(answer: dict[str, Any]) -> bool:
    """Whether a server of a cluster has answered before it had the state of the consumer: it knows
    the configuration only, leaves its cluster out, and all numbers are zero."""
    delivered = answer.get("delivered")
    is_unused = not isinstance(delivered, dict) or not delivered.get("consumer_seq")
    return is_unused and not answer.get("cluster")


def put_consumer(
    api: API,
    stream: str,
    config: ConsumerConfig,
    action: str | None,
    timeout: Seconds | None,
    *,
    pedantic: bool = False,
    again: Callable[[], ConsumerConfig] | None = None,
) -> ConsumerInfo:
    """Create a consumer (``action`` "create"), change it ("update"), or do what is needed (None).

    ``again`` returns another consumer to ask for as well, after silence; the first that was made is
    returned. See :func:`put_any_consumer`.

    Blocks. Raises ApiLevelRequiredError before anything is sent, else the server's APIError.
    """
    check_name("stream", stream)
    deadline = api.deadline(timeout)
    if pedantic:
        api.require("pedantic", "2.11")
    # The server adds this default itself; sending it keeps a repeated create identical.
    threshold: int | None = _EPHEMERAL_THRESHOLD
    if config.durable_name is not None or config.inactive_threshold is not None:
        threshold = None

    def request_for(config: ConsumerConfig) -> tuple[str, dict[str, Any]]:
        wire = config.to_wire(include_extra=action == "update")
        api.check_needs(consumer_needs(wire))
        name = config.name or config.durable_name
        if name is None:
            if action == "update":
                raise ConfigError("updating a consumer needs its name or durable_name")
            wire["name"] = name = next_nuid()
        if threshold is not None:
            wire["inactive_threshold"] = threshold
        operation = _operation("CREATE", stream, name)
        if config.filter_subject:
            operation += f".{config.filter_subject}"
        body: dict[str, Any] = {"stream_name": stream, "config": wire}
        if action is not None:
            body["action"] = action
        if pedantic:
            body["pedantic"] = True
        return operation, body

    def ask() -> ConsumerInfo:
        operation, body = request_for(config)
        answer = api.request(
            operation,
            body,
            timeout=deadline.remaining(),
            again=None if again is None else lambda: request_for(again()),
        )
        return ConsumerInfo.from_wire(answer)

    try:
        return ask()
    except InvalidConsumerConfigError as error:
        if threshold is None or error.err_code != _THRESHOLD_ABOVE_LIMIT:
            raise
        # The stream has a lower limit, which is then the default too.
        threshold = None
        return ask()


def put_any_consumer(
    api: API,
    stream: str,
    prefix: str,
    config_of: Callable[[str], ConsumerConfig],
    timeout: Seconds | None,
    unused: Callable[[str], object],
) -> ConsumerInfo:
    """Create a consumer under a unique name that begins with ``prefix``. Blocks; raises like
    :func:`put_consumer`.

    An election may lose the request, and servers choose one that died for up to half a minute, from
    which no answer comes. So after silence another name is asked for as well, with what
    ``config_of`` returns for it. ``unused`` is called with each name but the one that is returned:
    a server may have made that consumer, or may make it yet.
    """
    names: list[str] = []

    def another() -> ConsumerConfig:
        names.append(prefix + next_nuid())
        return config_of(names[-1])

    try:
        info = put_consumer(api, stream, another(), "create", timeout, again=another)
        with reading("the answer about a new consumer"):
            names.remove(info.name)
        return info
    finally:
        for name in names:
            unused(name)


def delete_consumer(
    api: API, stream: str, name: str, timeout: Seconds | None, *, repeatable: bool = False
) -> None:
    """Delete a consumer. Blocks; raises ConsumerNotFoundError, which with ``repeatable`` may mean
    that an earlier attempt of this call deleted it."""
    api.request(_operation("DELETE", stream, name), timeout=timeout, repeatable=repeatable)


def pause_consumer(
    api: API, stream: str, name: str, until: datetime, timeout: Seconds | None
) -> None:
    """Have a consumer deliver nothing until a point in time (server 2.11). Blocks."""
    api.require("pausing a consumer", "2.11")
    body = {"pause_until": format_time(until)}
    api.request(_operation("PAUSE", stream, name), body, timeout=timeout)


def resume_consumer(api: API, stream: str, name: str, timeout: Seconds | None) -> None:
    """Undo :func:`pause_consumer`: a time that is over ends the pause. Blocks."""
    pause_consumer(api, stream, name, datetime(1970, 1, 2, tzinfo=timezone.utc), timeout)


def unpin_consumer(api: API, stream: str, name: str, group: str, timeout: Seconds | None) -> None:
    """Take the pin of a priority group from the client that has it (server 2.11). Blocks."""
    if not group:
        raise ConfigError("group is missing: give one of the consumer's priority_groups")
    api.require("unpinning a client", "2.11")
    api.request(_operation("UNPIN", stream, name), {"group": group}, timeout=timeout)


def reset_consumer(
    api: API, stream: str, name: str, seq: int | None, timeout: Seconds | None
) -> ConsumerInfo:
    """Have a consumer deliver again from ``seq`` on (server 2.14). Blocks.

    A server does not answer for a consumer that is not there, so it is looked up first: raises
    ConsumerNotFoundError.
    """
    if seq is not None and (isinstance(seq, bool) or not isinstance(seq, int) or seq < 1):
        raise ConfigError(f"seq must be a stream sequence (1 or more) or None, got {seq!r}")
    api.require("resetting a consumer", "2.14")
    deadline: Deadline = api.deadline(timeout)
    consumer_info(api, stream, name, deadline.remaining())
    body = None if seq is None else {"seq": seq}
    answer = api.request(_operation("RESET", stream, name), body, timeout=deadline.remaining())
    return ConsumerInfo.from_wire(answer)
