"""ConsumerManager: the calls of JetStream that make, change, find and delete consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from jetsync._api_errors import (
    ConsumerNotFoundError,
    InvalidConsumerConfigError,
    JetStreamUnavailableError,
    StreamNotFoundError,
)
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync.errors import APIError, ConfigError, TimeoutError
from jetsync.jetstream._wire import build, format_time
from jetsync.jetstream.api import API
from jetsync.jetstream.consumers.config import ConsumerConfig
from jetsync.jetstream.consumers.consumer import Consumer
from jetsync.jetstream.consumers.info import ConsumerInfo
from jetsync.jetstream.levels import consumer_needs
from jetsync.jetstream.ordered.config import ordered_config
from jetsync.jetstream.ordered.consumer import OrderedConsumer
from jetsync.jetstream.ordered.reader import OrderedReader
from jetsync.jetstream.streams.config import Placement
from jetsync.protocol.ids import next_nuid
from jetsync.protocol.subjects import check_name

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.client import Connection
    from jetsync.client.port import Port
    from jetsync.jetstream.fields import ConsumerFields

__all__ = ["ConsumerManager", "fill_in", "step_down"]

T = TypeVar("T")

_FILL_IN = 5.0
_EPHEMERAL_THRESHOLD = 5_000_000_000
_THRESHOLD_ABOVE_LIMIT = 10153
# Fields of which a consumer has one: changing it takes the other away.
_EITHER = [("filter_subject", "filter_subjects"), ("filter_subjects", "filter_subject")]


class ConsumerManager:
    """What JetStream has for consumers. Thread-safe."""

    _nc: Connection
    _port: Port
    _api: API

    def _deadline(self, timeout: Seconds | None) -> Deadline:
        return Deadline(self._api.timeout if timeout is None else timeout)

    def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[ConsumerFields],
    ) -> Consumer:
        """Create a consumer from a ConsumerConfig or its fields; without a name an ephemeral one.

        An identical consumer that exists is returned; a different one under this name raises
        ConsumerExistsError. With ``pedantic`` the server refuses what it would otherwise correct by
        itself (PedanticError, server 2.11). A field that needs a newer server raises
        ApiLevelRequiredError before anything is sent. Blocks. Raises InvalidConsumerConfigError,
        StreamNotFoundError.
        """
        built = build(ConsumerConfig, config, fields)
        return self._put_consumer(stream, built, "create", timeout, pedantic=pedantic)

    def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[ConsumerFields],
    ) -> Consumer:
        """Change an existing consumer. Raises ConsumerDoesNotExistError. Blocks.

        With a ``config`` that becomes the configuration, keywords on top: what is not in it gets
        its default. With ``name=`` (or ``durable_name=``) and keywords alone the configuration is
        read first and only those fields change. Where to begin, how to acknowledge and what is
        said to be fixed in ``ConsumerConfig`` cannot be changed (InvalidConsumerConfigError).
        """
        deadline = self._deadline(timeout)
        if config is None:
            config, changes = self._merge(stream, dict(fields), deadline)
        else:
            changes = dict(fields)
        built = build(ConsumerConfig, config, changes)
        return self._put_consumer(stream, built, "update", deadline.remaining(), pedantic=pedantic)

    def _merge(
        self, stream: str, fields: dict[str, Any], deadline: Deadline
    ) -> tuple[ConsumerConfig | None, dict[str, Any]]:
        """The configuration that a consumer has, and the fields to change in it."""
        name = fields.get("name") or fields.get("durable_name")
        if name is None:
            return None, fields
        try:
            config = self._consumer_info(stream, name, deadline.remaining()).config
        except ConsumerNotFoundError:
            return None, fields  # the server says so itself, in other words
        for one, other in _EITHER:
            if fields.get(one):
                fields.setdefault(other, None)
        return config, fields

    def create_or_update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[ConsumerFields],
    ) -> Consumer:
        """Make sure that a consumer with exactly this configuration exists. Blocks.

        What is not given gets its default, whether the consumer was there or not; what cannot be
        changed raises InvalidConsumerConfigError.
        """
        built = build(ConsumerConfig, config, fields)
        return self._put_consumer(stream, built, None, timeout, pedantic=pedantic)

    def _put_consumer(
        self,
        stream: str,
        config: ConsumerConfig,
        action: str | None,
        timeout: Seconds | None,
        *,
        pedantic: bool = False,
    ) -> Consumer:
        check_name("stream", stream)
        deadline = self._deadline(timeout)
        wire = config.to_wire(include_extra=action == "update")
        self._api.check_needs(consumer_needs(wire))
        name = config.name or config.durable_name
        if name is None:
            if action == "update":
                raise ConfigError("updating a consumer needs its name or durable_name")
            name = next_nuid()
            wire["name"] = name
        operation = f"CONSUMER.CREATE.{stream}.{check_name('consumer', name)}"
        if config.filter_subject:
            operation += f".{config.filter_subject}"
        body: dict[str, Any] = {"stream_name": stream, "config": wire}
        if action is not None:
            body["action"] = action
        if pedantic:
            self._api.require("pedantic", "2.11")
            body["pedantic"] = True
        filled = config.durable_name is None and "inactive_threshold" not in wire
        if filled:
            # The server adds this default itself; sending it keeps a repeated create identical.
            wire["inactive_threshold"] = _EPHEMERAL_THRESHOLD
        try:
            answer = self._api.request(operation, body, timeout=deadline.remaining())
        except InvalidConsumerConfigError as error:
            if not filled or error.err_code != _THRESHOLD_ABOVE_LIMIT:
                raise
            # The stream has a lower limit, which is then the default too.
            del wire["inactive_threshold"]
            answer = self._api.request(operation, body, timeout=deadline.remaining())
        return Consumer(self, ConsumerInfo.from_wire(answer))

    def ordered_consumer(
        self,
        stream: str,
        *,
        filter_subjects: str | Sequence[str] | None = None,
        deliver_policy: str = "all",
        opt_start_seq: int | None = None,
        opt_start_time: datetime | None = None,
        headers_only: bool = False,
        replay_policy: str = "instant",
        inactive_threshold: Seconds = 300.0,
        max_reset_attempts: int = -1,
        name_prefix: str = "",
        metadata: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
    ) -> OrderedConsumer:
        """Return a reader that gets every message of a stream exactly once and in order (ADR-17).

        ``deliver_policy``, ``opt_start_seq`` and ``opt_start_time`` say where to begin, decided
        now and not at the first reset; ``filter_subjects`` (one, or several that do not overlap)
        which subjects. With ``headers_only`` payloads are left out. A server consumer without a
        pull for ``inactive_threshold`` seconds ends; the next read makes another. After
        ``max_reset_attempts`` resets in a row without a message or a heartbeat between them reading
        raises JetStreamError (-1: it tries for ever). Server consumers are called ``name_prefix``
        and a unique text.

        Reading raises StreamNotFoundError when the stream is gone, and JetStreamError when it was
        made again or has lost messages that were read: then "the next one" means nothing any more.
        Interest and work-queue streams are not for this: there reading deletes, or is refused.

        Blocks for two round trips. Raises StreamNotFoundError, InvalidConsumerConfigError,
        ConfigError.
        """
        config = ordered_config(
            filter_subjects=filter_subjects,
            deliver_policy=deliver_policy,
            opt_start_seq=opt_start_seq,
            opt_start_time=opt_start_time,
            headers_only=headers_only,
            replay_policy=replay_policy,
            inactive_threshold=inactive_threshold,
            metadata=metadata,
        )
        reader = OrderedReader(self, stream, config, name_prefix, max_reset_attempts)
        reader.begin(self._api.timeout if timeout is None else to_seconds(timeout))
        return OrderedConsumer(reader)

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

    def consumers(self, stream: str, *, timeout: Seconds | None = None) -> Iterator[ConsumerInfo]:
        """Iterate over the consumers of a stream; each page is a request of ``timeout`` seconds.

        In a cluster some servers may not answer in time. Consumers that are missing for that are
        asked for one by one; if that fails too, JetStreamUnavailableError names them at the end.
        """
        operation = f"CONSUMER.LIST.{check_name('stream', stream)}"
        missing: set[str] = set()
        for item in self._api.pages(operation, "consumers", timeout=timeout, missing=missing):
            yield ConsumerInfo.from_wire(item)
        yield from fill_in(
            "consumers",
            missing,
            lambda name, share: self._consumer_info(stream, name, share),
            self._deadline(timeout),
        )

    def consumer_names(self, stream: str, *, timeout: Seconds | None = None) -> Iterator[str]:
        """Iterate over the names of the consumers of a stream, page by page."""
        operation = f"CONSUMER.NAMES.{check_name('stream', stream)}"
        return self._api.pages(operation, "consumers", timeout=timeout)

    def pause_consumer(
        self, stream: str, name: str, until: datetime, *, timeout: Seconds | None = None
    ) -> None:
        """Deliver nothing until a point in time (with time zone; server 2.11). Blocks.

        Pulls keep getting heartbeats meanwhile. A time that is over resumes.
        """
        self._pause(stream, name, {"pause_until": format_time(until)}, timeout)

    def resume_consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> None:
        """Undo :meth:`pause_consumer`."""
        past = datetime(1970, 1, 2, tzinfo=timezone.utc)
        self._pause(stream, name, {"pause_until": format_time(past)}, timeout)

    def _pause(self, stream: str, name: str, body: dict[str, Any], timeout: Seconds | None) -> None:
        self._api.require("pausing a consumer", "2.11")
        self._api.request(
            f"CONSUMER.PAUSE.{check_name('stream', stream)}.{check_name('consumer', name)}",
            body,
            timeout=timeout,
        )

    def unpin_consumer(
        self, stream: str, name: str, group: str, *, timeout: Seconds | None = None
    ) -> None:
        """Take the pin from the client that has it, so that the server chooses anew (server 2.11).

        For consumers with ``priority_policy="pinned_client"`` (ADR-42). The same client may be
        chosen again. Raises PriorityGroupError for an unknown group, ConsumerNotFoundError.
        """
        if not group:
            raise ConfigError("group is missing: give one of the consumer's priority_groups")
        self._api.require("unpinning a client", "2.11")
        self._api.request(
            f"CONSUMER.UNPIN.{check_name('stream', stream)}.{check_name('consumer', name)}",
            {"group": group},
            timeout=timeout,
        )

    def reset_consumer(
        self, stream: str, name: str, seq: int | None = None, *, timeout: Seconds | None = None
    ) -> ConsumerInfo:
        """Deliver again: from stream sequence ``seq`` on, or what is not acknowledged yet if None.

        Consumer sequences begin again at 1 and what was delivered counts as not delivered. Needs
        server 2.14. Raises ConsumerResetError when the consumer's ``deliver_policy`` excludes this
        sequence. A server does not answer for a consumer that is not there, so it is looked up
        first: raises ConsumerNotFoundError. ``extra["reset_seq"]`` of the answer is where it
        begins.
        """
        if seq is not None and (isinstance(seq, bool) or not isinstance(seq, int) or seq < 1):
            raise ConfigError(f"seq must be a stream sequence (1 or more) or None, got {seq!r}")
        self._api.require("resetting a consumer", "2.14")
        deadline = self._deadline(timeout)
        self._consumer_info(stream, name, deadline.remaining())
        answer = self._api.request(
            f"CONSUMER.RESET.{stream}.{name}",
            None if seq is None else {"seq": seq},
            timeout=deadline.remaining(),
        )
        return ConsumerInfo.from_wire(answer)

    def step_down_consumer_leader(
        self,
        stream: str,
        name: str,
        *,
        placement: Placement | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        """Let another server lead the consumer: any, or one by ``placement`` (server 2.11).

        Blocks until the leader has agreed, not until there is a new one. Raises ClusterError
        without a cluster.
        """
        operation = f"CONSUMER.LEADER.STEPDOWN.{check_name('stream', stream)}"
        step_down(self._api, f"{operation}.{check_name('consumer', name)}", placement, timeout)

    def remove_consumer_peer(
        self, stream: str, name: str, peer: str, *, timeout: Seconds | None = None
    ) -> None:
        """Take a server (by name or id) out of those that hold the consumer (server 2.15).

        Another takes its place. Blocks. Raises ClusterError without a cluster.
        """
        self._api.require("removing a consumer's peer", "2.15")
        self._api.request(
            f"CONSUMER.PEER.REMOVE.{check_name('stream', stream)}.{check_name('consumer', name)}",
            {"peer": peer},
            timeout=timeout,
        )


def step_down(
    api: API, operation: str, placement: Placement | None, timeout: Seconds | None
) -> None:
    body: dict[str, Any] | None = None
    if placement is not None:
        api.require("placement of a leader", "2.11")
        body = {"placement": placement.to_wire()}
    api.request(operation, body, timeout=timeout)


def fill_in(
    what: str, missing: set[str], look_up: Callable[[str, float], T], deadline: Deadline
) -> Iterator[T]:
    """Look up, name by name, what a listing left out.

    ``look_up`` gets a name and its share of the time. Raises JetStreamUnavailableError for what
    cannot be had.
    """
    lost: list[str] = []
    # A consumer with a leader answers quickly; a damaged cluster has many without.
    deadline = Deadline(deadline.within(_FILL_IN))
    for left, name in zip(range(len(missing), 0, -1), sorted(missing), strict=True):
        try:
            found = look_up(name, deadline.within(_FILL_IN) / left)
        except (StreamNotFoundError, ConsumerNotFoundError):
            continue  # deleted meanwhile
        except (APIError, TimeoutError):
            lost.append(name)
        else:
            yield found
    if lost:
        raise JetStreamUnavailableError(
            f"the listing is not complete: no server answers for the {what} {', '.join(lost)}",
            code=503,
            err_code=10004,
            description="incomplete results",
        )
