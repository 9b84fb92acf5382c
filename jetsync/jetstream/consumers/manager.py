"""ConsumerManager: the calls of JetStream that make, change, find and delete consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from jetsync._deadline import Deadline, Seconds
from jetsync._signatures import spells_out
from jetsync.errors import (
    APIError,
    ConsumerNotFoundError,
    JetStreamUnavailableError,
    StreamNotFoundError,
    TimeoutError,
)
from jetsync.jetstream._wire import build
from jetsync.jetstream.api import API
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.config.stream import Placement
from jetsync.jetstream.consumers.consumer import Consumer
from jetsync.jetstream.consumers.requests import (
    consumer_info,
    delete_consumer,
    pause_consumer,
    put_consumer,
    reset_consumer,
    resume_consumer,
    unpin_consumer,
)
from jetsync.protocol.subjects import check_name

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.jetstream.config.fields import ConsumerFields

__all__ = ["ConsumerManager", "fill_in", "step_down"]

T = TypeVar("T")

_FILL_IN = 5.0
# Fields that exclude each other: setting one clears the other.
_EITHER = [("filter_subject", "filter_subjects"), ("filter_subjects", "filter_subject")]


class ConsumerManager:
    """The calls of JetStream on consumers. Thread-safe."""

    _api: API

    @spells_out(ConsumerConfig)
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

        An identical consumer that exists is returned. With ``pedantic`` the server refuses what it
        would otherwise correct by itself (PedanticError, server 2.11).

        Blocks up to ``timeout`` seconds (default: this object's). Raises ConsumerExistsError when a
        consumer of this name has another configuration, InvalidConsumerConfigError,
        StreamNotFoundError or another APIError; ConfigError and ApiLevelRequiredError (a field
        needs a newer server) before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        built = build(ConsumerConfig, config, fields)
        return self._put_consumer(stream, built, "create", timeout, pedantic=pedantic)

    @spells_out(ConsumerConfig)
    def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[ConsumerFields],
    ) -> Consumer:
        """Change an existing consumer.

        With a ``config`` that becomes the configuration, keywords on top: what is not in it gets
        its default. With ``name=`` (or ``durable_name=``) and keywords alone the configuration is
        read first and only those fields change. Where to begin, how to acknowledge and what is said
        to be fixed in ``ConsumerConfig`` cannot be changed. ``pedantic`` as for
        :meth:`create_consumer`.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ConsumerDoesNotExistError,
        InvalidConsumerConfigError, StreamNotFoundError or another APIError; ConfigError and
        ApiLevelRequiredError (a field needs a newer server) before the change is sent;
        TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError
        or DisconnectedError it may have been done.
        """
        deadline = self._api.deadline(timeout)
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
            config = consumer_info(self._api, stream, name, deadline.remaining()).config
        except ConsumerNotFoundError:
            return None, fields  # the server refuses it with an error of its own
        for one, other in _EITHER:
            if fields.get(one):
                fields.setdefault(other, None)
        return config, fields

    @spells_out(ConsumerConfig)
    def create_or_update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[ConsumerFields],
    ) -> Consumer:
        """Make sure that a consumer with exactly this configuration exists.

        What is not given gets its default, whether the consumer was there or not. ``pedantic`` as
        for :meth:`create_consumer`.

        Blocks up to ``timeout`` seconds (default: this object's). Raises InvalidConsumerConfigError
        also for what cannot be changed, StreamNotFoundError or another APIError; ConfigError and
        ApiLevelRequiredError (a field needs a newer server) before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
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
        info = put_consumer(self._api, stream, config, action, timeout, pedantic=pedantic)
        return Consumer(self._api, info)

    def consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> Consumer:
        """Look a consumer up.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ConsumerNotFoundError,
        StreamNotFoundError or another APIError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return Consumer(self._api, consumer_info(self._api, stream, name, timeout))

    def delete_consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a consumer.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ConsumerNotFoundError,
        StreamNotFoundError or another APIError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        delete_consumer(self._api, stream, name, timeout)

    def consumers(self, stream: str, *, timeout: Seconds | None = None) -> Iterator[ConsumerInfo]:
        """Iterate over the consumers of a stream.

        In a cluster some servers may not answer in time. Consumers that are missing for that are
        asked for one by one; if that fails too, JetStreamUnavailableError names them at the end.

        Blocks while it is iterated, up to ``timeout`` seconds (default: this object's) for each
        page. Raises then StreamNotFoundError, JetStreamUnavailableError or another APIError;
        ConfigError before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        operation = f"CONSUMER.LIST.{check_name('stream', stream)}"
        missing: set[str] = set()
        for item in self._api.pages(operation, "consumers", timeout=timeout, missing=missing):
            yield ConsumerInfo.from_wire(item)
        yield from fill_in(
            "consumers",
            missing,
            lambda name, share: consumer_info(self._api, stream, name, share),
            self._api.deadline(timeout),
        )

    def consumer_names(self, stream: str, *, timeout: Seconds | None = None) -> Iterator[str]:
        """Iterate over the names of the consumers of a stream.

        Blocks while it is iterated, up to ``timeout`` seconds (default: this object's) for each
        page. Raises ConfigError at once for an invalid name, then StreamNotFoundError or another
        APIError; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        operation = f"CONSUMER.NAMES.{check_name('stream', stream)}"
        return self._api.pages(operation, "consumers", timeout=timeout)

    def pause_consumer(
        self, stream: str, name: str, until: datetime, *, timeout: Seconds | None = None
    ) -> None:
        """Have a consumer deliver nothing until a point in time (with time zone; server 2.11).

        Pulls keep getting heartbeats meanwhile. A time that is over resumes.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ConsumerNotFoundError,
        StreamNotFoundError or another APIError; ConfigError and ApiLevelRequiredError (an older
        server) before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. After TimeoutError or DisconnectedError it may have been done.
        """
        pause_consumer(self._api, stream, name, until, timeout)

    def resume_consumer(self, stream: str, name: str, *, timeout: Seconds | None = None) -> None:
        """Undo :meth:`pause_consumer` (server 2.11).

        Blocks up to ``timeout`` seconds (default: this object's). Raises ConsumerNotFoundError,
        StreamNotFoundError or another APIError; ConfigError and ApiLevelRequiredError (an older
        server) before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. After TimeoutError or DisconnectedError it may have been done.
        """
        resume_consumer(self._api, stream, name, timeout)

    def unpin_consumer(
        self, stream: str, name: str, group: str, *, timeout: Seconds | None = None
    ) -> None:
        """Take the pin from the client that has it, so that the server chooses anew (server 2.11).

        For consumers with ``priority_policy="pinned_client"`` (ADR-42). The same client may be
        chosen again.

        Blocks up to ``timeout`` seconds (default: this object's). Raises PriorityGroupError for an
        unknown group, ConsumerNotFoundError, StreamNotFoundError or another APIError; ConfigError
        and ApiLevelRequiredError (an older server) before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        unpin_consumer(self._api, stream, name, group, timeout)

    def reset_consumer(
        self, stream: str, name: str, seq: int | None = None, *, timeout: Seconds | None = None
    ) -> ConsumerInfo:
        """Have a consumer deliver again: from stream sequence ``seq`` on, or what is not
        acknowledged yet if None.

        Consumer sequences begin again at 1 and what was delivered counts as not delivered. Needs
        server 2.14. A server does not answer for a consumer that is not there, so it is looked up
        first. ``extra["reset_seq"]`` of the answer is where it begins.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ConsumerResetError when
        the consumer's ``deliver_policy`` excludes this sequence, ConsumerNotFoundError,
        StreamNotFoundError or another APIError; ConfigError and ApiLevelRequiredError (an older
        server) before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. After TimeoutError or DisconnectedError it may have been done.
        """
        return reset_consumer(self._api, stream, name, seq, timeout)

    def step_down_consumer_leader(
        self,
        stream: str,
        name: str,
        *,
        placement: Placement | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        """Let another server lead the consumer: any, or one by ``placement`` (server 2.11).

        Blocks until the leader has agreed, not until there is a new one, up to ``timeout`` seconds
        (default: this object's). Raises ClusterError without a cluster, ConsumerNotFoundError or
        another APIError; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        operation = f"CONSUMER.LEADER.STEPDOWN.{check_name('stream', stream)}"
        step_down(self._api, f"{operation}.{check_name('consumer', name)}", placement, timeout)

    def remove_consumer_peer(
        self, stream: str, name: str, peer: str, *, timeout: Seconds | None = None
    ) -> None:
        """Take the server ``peer`` (its name or id) out of those that hold the consumer (server
        2.15); another takes its place.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ClusterError without a
        cluster, ConsumerNotFoundError or another APIError; ConfigError and ApiLevelRequiredError
        (an older server) before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
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
    """Look up, name by name, the consumers or streams that a listing left out.

    ``look_up`` gets a name and its share of the time. Raises JetStreamUnavailableError for names
    without an answer.
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
