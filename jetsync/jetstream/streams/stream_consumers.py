"""StreamConsumers: the calls of a stream that make, change, find and delete its consumers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from jetsync._deadline import Seconds
from jetsync._signatures import spells_out
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.consumers.consumer import Consumer
from jetsync.jetstream.ordered.consumer import OrderedConsumer
from jetsync.jetstream.ordered.manager import OrderedConsumers

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.jetstream.config.fields import ConsumerFields
    from jetsync.jetstream.ordered.config import OrderedOptions
    from jetsync.jetstream.streams.manager import StreamManager

__all__ = ["StreamConsumers"]


class StreamConsumers:
    """The calls of ``Stream`` on its consumers: those of ``JetStream`` for one stream. Thread-safe;
    every call blocks."""

    name: str
    _js: StreamManager

    @spells_out(ConsumerConfig)
    def create_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[ConsumerFields],
    ) -> Consumer:
        """Create a consumer of this stream from a ConsumerConfig or its fields; without a name an
        ephemeral one.

        An identical consumer that exists is returned. With ``pedantic`` the server refuses what it
        would otherwise correct by itself (PedanticError, server 2.11).

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerExistsError when a consumer of this name has another configuration,
        InvalidConsumerConfigError, StreamNotFoundError or another APIError; ConfigError and
        ApiLevelRequiredError (a field needs a newer server) before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        return self._js.create_consumer(
            self.name, config, timeout=timeout, pedantic=pedantic, **fields
        )

    @spells_out(ConsumerConfig)
    def update_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[ConsumerFields],
    ) -> Consumer:
        """Change a consumer of this stream.

        With a ``config`` that becomes the configuration, keywords on top: what is not in it gets
        its default. With ``name=`` (or ``durable_name=``) and keywords alone the configuration is
        read first and only those fields change. Where to begin, how to acknowledge and what is said
        to be fixed in ``ConsumerConfig`` cannot be changed. ``pedantic`` as for
        :meth:`create_consumer`.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerDoesNotExistError, InvalidConsumerConfigError, StreamNotFoundError or another
        APIError; ConfigError and ApiLevelRequiredError (a field needs a newer server) before the
        change is sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        After TimeoutError or DisconnectedError it may have been done.
        """
        return self._js.update_consumer(
            self.name, config, timeout=timeout, pedantic=pedantic, **fields
        )

    @spells_out(ConsumerConfig)
    def create_or_update_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[ConsumerFields],
    ) -> Consumer:
        """Make sure that a consumer of this stream with exactly this configuration exists.

        What is not given gets its default, whether the consumer was there or not. ``pedantic`` as
        for :meth:`create_consumer`.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        InvalidConsumerConfigError also for what cannot be changed, StreamNotFoundError or another
        APIError; ConfigError and ApiLevelRequiredError (a field needs a newer server) before
        anything is sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        After TimeoutError or DisconnectedError it may have been done.
        """
        return self._js.create_or_update_consumer(
            self.name, config, timeout=timeout, pedantic=pedantic, **fields
        )

    def consumer(self, name: str, *, timeout: Seconds | None = None) -> Consumer:
        """Look a consumer of this stream up.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; ConfigError before anything
        is sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return self._js.consumer(self.name, name, timeout=timeout)

    @spells_out(OrderedConsumers.ordered_consumer)
    def ordered_consumer(self, **options: Unpack[OrderedOptions]) -> OrderedConsumer:
        """Return a reader that gets every message of this stream exactly once and in order
        (ADR-17).

        ``deliver_policy``, ``opt_start_seq`` and ``opt_start_time`` say where to begin, decided now
        and not at the first reset; ``filter_subjects`` (one, or several that do not overlap) which
        subjects. With ``headers_only`` payloads are left out. The other options and what reading
        raises: see ``JetStream.ordered_consumer``.

        Blocks for two round trips, up to ``timeout`` seconds (default: the JetStream object's).
        Raises StreamNotFoundError, InvalidConsumerConfigError or another APIError; ConfigError
        before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        return self._js.ordered_consumer(self.name, **options)

    def delete_consumer(self, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a consumer of this stream.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; ConfigError before anything
        is sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError. After
        TimeoutError or DisconnectedError it may have been done.
        """
        self._js.delete_consumer(self.name, name, timeout=timeout)

    def consumers(self, *, timeout: Seconds | None = None) -> Iterator[ConsumerInfo]:
        """Iterate over the consumers of this stream.

        In a cluster some servers may not answer in time. Consumers that are missing for that are
        asked for one by one; if that fails too, JetStreamUnavailableError names them at the end.

        Blocks while it is iterated, up to ``timeout`` seconds (default: the JetStream object's) for
        each page. Raises then StreamNotFoundError, JetStreamUnavailableError or another APIError;
        TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return self._js.consumers(self.name, timeout=timeout)

    def consumer_names(self, *, timeout: Seconds | None = None) -> Iterator[str]:
        """Iterate over the names of the consumers of this stream.

        Blocks while it is iterated, up to ``timeout`` seconds (default: the JetStream object's) for
        each page. Raises then StreamNotFoundError or another APIError; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return self._js.consumer_names(self.name, timeout=timeout)

    def pause_consumer(self, name: str, until: datetime, *, timeout: Seconds | None = None) -> None:
        """Have a consumer of this stream deliver nothing until a point in time (with time zone;
        server 2.11).

        Pulls keep getting heartbeats meanwhile. A time that is over resumes.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; ConfigError and
        ApiLevelRequiredError (an older server) before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        self._js.pause_consumer(self.name, name, until, timeout=timeout)

    def resume_consumer(self, name: str, *, timeout: Seconds | None = None) -> None:
        """Undo :meth:`pause_consumer` (server 2.11).

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; ConfigError and
        ApiLevelRequiredError (an older server) before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        self._js.resume_consumer(self.name, name, timeout=timeout)

    def unpin_consumer(self, name: str, group: str, *, timeout: Seconds | None = None) -> None:
        """Take the pin from the client that has it, so that the server chooses anew (server 2.11).

        For consumers with ``priority_policy="pinned_client"`` (ADR-42). The same client may be
        chosen again.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        PriorityGroupError for an unknown group, ConsumerNotFoundError, StreamNotFoundError or
        another APIError; ConfigError and ApiLevelRequiredError (an older server) before anything is
        sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError. After
        TimeoutError or DisconnectedError it may have been done.
        """
        self._js.unpin_consumer(self.name, name, group, timeout=timeout)

    def reset_consumer(
        self, name: str, seq: int | None = None, *, timeout: Seconds | None = None
    ) -> ConsumerInfo:
        """Have a consumer of this stream deliver again: from stream sequence ``seq`` on, or what is
        not acknowledged yet if None.

        Consumer sequences begin again at 1 and what was delivered counts as not delivered. Needs
        server 2.14. ``extra["reset_seq"]`` of the answer is where it begins.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerResetError when the consumer's ``deliver_policy`` excludes this sequence,
        ConsumerNotFoundError, StreamNotFoundError or another APIError; ConfigError and
        ApiLevelRequiredError (an older server) before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        return self._js.reset_consumer(self.name, name, seq, timeout=timeout)
