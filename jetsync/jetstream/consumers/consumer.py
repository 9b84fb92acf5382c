"""Consumer: a handle on a pull consumer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from jetsync._deadline import Seconds, to_seconds
from jetsync._handles import Handle
from jetsync._numbers import check_whole
from jetsync._signatures import check_options, spells_out
from jetsync.client.callbacks import check_callback
from jetsync.errors import ConfigError, TimeoutError
from jetsync.jetstream.api import API
from jetsync.jetstream.config.consumer_info import ConsumerInfo, ConsumerLag
from jetsync.jetstream.consumers.diagnosis import explain_stall
from jetsync.jetstream.consumers.measuring import LagMeter
from jetsync.jetstream.consumers.requests import (
    delete_consumer,
    pause_consumer,
    reset_consumer,
    resume_consumer,
    unpin_consumer,
)
from jetsync.jetstream.consumers.shared import SharedConsumer
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.pull.batch import BatchOptions, Mode
from jetsync.jetstream.pull.messages import ConsumeContext, MessageStream
from jetsync.jetstream.pull.options import (
    DEFAULT_EXPIRES,
    BufferLimits,
    MessagesOptions,
    heartbeat_for,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync._measurement import Measurement
    from jetsync.jetstream.pull.pieces import PiecewisePull

__all__ = ["Consumer"]


class Consumer(Handle):
    """A pull consumer of a stream. Made by the consumer calls of ``JetStream`` and ``Stream``.

    Thread-safe: several threads may fetch at once. As a context manager it gives its inboxes back
    at the end; the consumer on the server stays.
    """

    def __init__(self, api: API, info: ConsumerInfo) -> None:
        self._api = api
        self._port = api.port
        self._shared = SharedConsumer(api, info)
        self._meter = LagMeter(self._shared)
        self.stream_name: str = info.stream_name
        self.name: str = info.name

    # -- taking messages ---------------------------------------------------------------------------

    def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        timeout: Seconds | None = None,
        heartbeat: Seconds | None = None,
        eager: bool = False,
        group: str | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
    ) -> MsgBatch:
        """Fetch one batch: at most ``max_messages`` messages or ``max_bytes`` bytes.

        Blocks until the batch is full or ``timeout`` seconds (default: the connection's) are over,
        and returns what came. An empty batch is not an error: the server has said that there is
        nothing. With ``eager`` it returns as soon as something came and the server has nothing more
        ready. The remainder is asked for again after a reconnect or a change of leader within the
        same time. ``batch.error`` says why a pull ended early. Messages that arrive when the call
        is over are the first ones of the next fetch with this object (see the guide). The server
        shows every ``heartbeat`` seconds that it is alive. In a priority group
        ``group`` is needed, and ``min_pending``, ``min_ack_pending`` and ``priority`` say when it
        is served, as for :meth:`messages`.

        Raises PullUnansweredError, a TimeoutError, when nothing came and the server has not said
        that there is nothing (a frozen server, a lost link, no leader); ConsumerDeletedError at
        once when the consumer is gone; PermissionsError; PullTerminatedError when the server
        refuses the pull; ConfigError, ConnectionClosedError.
        """
        if max_messages is None and max_bytes is None:
            raise ConfigError("fetch needs max_messages or max_bytes")
        if max_messages is not None:
            check_whole("max_messages", max_messages)
        if max_bytes is not None:
            check_whole("max_bytes", max_bytes)
        self._port.check()
        seconds = self._port.seconds(timeout)
        return self._shared.fetch(
            BatchOptions(
                max_messages,
                max_bytes,
                seconds,
                heartbeat_for(seconds, heartbeat, "the timeout"),
                Mode.EAGER if eager else Mode.WAIT,
                self._shared.priority(group, min_pending, min_ack_pending, priority),
            )
        )

    def fetch_no_wait(
        self,
        max_messages: int,
        *,
        timeout: Seconds | None = None,
        group: str | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
    ) -> MsgBatch:
        """Fetch what is there now, at most ``max_messages``; the batch may be empty.

        Blocks for a round trip, and up to ``timeout`` seconds (default: the JetStream object's)
        while the server does not answer. ``group``, ``min_pending``, ``min_ack_pending`` and
        ``priority`` as for :meth:`messages`.

        Raises PullUnansweredError, a TimeoutError, when the server did not answer;
        ConsumerDeletedError; PermissionsError; PullTerminatedError when the server refuses the
        pull; ConfigError, ConnectionClosedError.
        """
        check_whole("max_messages", max_messages)
        self._port.check()
        return self._shared.fetch(
            BatchOptions(
                max_messages,
                None,
                to_seconds(self._api.timeout if timeout is None else timeout),
                None,
                Mode.NO_WAIT,
                self._shared.priority(group, min_pending, min_ack_pending, priority),
            )
        )

    def next(
        self,
        timeout: Seconds | None = None,
        *,
        group: str | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
    ) -> JetStreamMsg:
        """Return one message. ``group``, ``min_pending``, ``min_ack_pending`` and ``priority`` as
        for :meth:`messages`.

        Blocks up to ``timeout`` seconds (default: the connection's). Raises TimeoutError when none
        came (PullUnansweredError when the server has not said that there is none);
        ConsumerDeletedError; PermissionsError; PullTerminatedError when the server refuses the
        pull; ConfigError, ConnectionClosedError.
        """
        # A subclass that observes both calls sees one of them: the user's.
        batch = Consumer.fetch(
            self,
            1,
            timeout=timeout,
            group=group,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
            priority=priority,
        )
        if not len(batch):
            raise TimeoutError(
                f"no message from {self!r} within {self._port.seconds(timeout):g} s",
                operation="next",
            )
        return batch[0]

    def messages(
        self,
        *,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        expires: Seconds = DEFAULT_EXPIRES,
        heartbeat: Seconds | None = None,
        threshold_messages: int | None = None,
        threshold_bytes: int | None = None,
        group: str | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
        on_missed_heartbeat: Literal["warn", "stop"] = "warn",
        on_warning: Callable[[Exception], Any] | None = None,
        on_pinned: Callable[[str], Any] | None = None,
        on_unpinned: Callable[[str], Any] | None = None,
        stop_after: int | None = None,
    ) -> MessageStream:
        """Return an endless iterator over the messages, with a buffer that refills itself.

        ``max_messages`` or ``max_bytes``, not both, bounds the buffer; at ``threshold_messages`` or
        ``threshold_bytes`` (default half of it) the next pull is sent. Without either it holds 1000
        messages, and grows while the link is the bottleneck, to 64,000 messages or 32 MiB.
        ``expires`` is the length of one pull on the server (1 s or more), ``heartbeat`` (default
        half of it, at most 2 s) how often the server shows that it is alive. The stream recovers
        from server restarts, reconnects and leader changes by itself. Warnings go to ``on_warning``
        and the log; two missed heartbeats are one, or end the stream with PullTerminatedError when
        ``on_missed_heartbeat="stop"``. ``stop_after`` ends the iteration after so many messages.
        Does not block; taking does. The first pull is sent when the first message is taken: before
        that nothing is buffered, whose ``ack_wait`` would run.

        In a priority group (ADR-42) ``group`` is needed; ``min_pending``, ``min_ack_pending`` are
        for the policy overflow, ``priority`` (0 first, to 9) for prioritized. With pinned_client
        ``on_pinned`` and ``on_unpinned`` are called with the id that the server gave or took, in
        the thread that takes messages. Raises ConfigError for what the consumer has no use for.
        """
        self._port.check()
        return MessageStream(
            self._shared,
            limits=BufferLimits.of(
                max_messages=max_messages,
                max_bytes=max_bytes,
                expires=expires,
                heartbeat=heartbeat,
                threshold_messages=threshold_messages,
                threshold_bytes=threshold_bytes,
            ),
            group=self._shared.priority(group, min_pending, min_ack_pending, priority),
            on_missed_heartbeat=on_missed_heartbeat,
            on_warning=on_warning,
            on_pinned=on_pinned,
            on_unpinned=on_unpinned,
            stop_after=stop_after,
        )

    @spells_out(messages)
    def consume(
        self, callback: Callable[[JetStreamMsg], Any], **options: Unpack[MessagesOptions]
    ) -> ConsumeContext:
        """Give every message to ``callback``, one by one: see ``ConsumeContext`` for the thread.

        Takes the options of :meth:`messages`. An exception of the callback goes to the connection's
        ``on_error``; the message is not acknowledged for you and the next one is delivered. Does
        not block. Raises ConfigError for options that the consumer has no use for,
        ConnectionClosedError.
        """
        check_options("consume", options, MessagesOptions)
        check_callback(callback)
        return ConsumeContext(self._port, self.messages(**options), callback)

    # -- managing it -------------------------------------------------------------------------------

    def info(self, *, timeout: Seconds | None = None) -> ConsumerInfo:
        """Ask the server about the consumer.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError, JetStreamUnavailableError
        while the servers of a cluster have not loaded the consumer; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return self._shared.info(timeout)

    @property
    def cached_info(self) -> ConsumerInfo:
        """The last info from the server. Does not block."""
        return self._shared.cached_info

    def lag(self, *, timeout: Seconds | None = None) -> ConsumerLag:
        """Ask how far the consumer is behind its stream.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return ConsumerLag.from_info(self.info(timeout=timeout))

    def measurements(self) -> list[Measurement]:
        """Return the lag as measurements for a collector such as ``jetsync.prometheus``.

        Asks the server, blocking like :meth:`info`, unless it was asked less than 5 seconds ago;
        when no answer comes the list is empty. Raises ConnectionClosedError.
        """
        return self._meter.read()

    def explain_stall(self, *, timeout: Seconds | None = None) -> str | None:
        """Ask the server why nothing comes, and return the reason as one sentence; None when there
        is none.

        It knows: no link, the stream or consumer gone, no leader, a push consumer, paused, too many
        unacknowledged messages, pinned to another client, nothing (that matches) to deliver, no
        client pulls.

        Blocks for a round trip, with a filter for some more, up to ``timeout`` seconds (default:
        the JetStream object's). That no answer comes is a reason too. Raises an APIError that it
        does not know, PermissionsError, ConnectionClosedError.
        """
        seconds = to_seconds(self._api.timeout if timeout is None else timeout)
        return explain_stall(self._shared, seconds)

    def pause(self, until: datetime, *, timeout: Seconds | None = None) -> None:
        """Deliver nothing until a point in time (with time zone; server 2.11).

        Pulls keep getting heartbeats meanwhile. A time that is over resumes.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; ConfigError and
        ApiLevelRequiredError (an older server) before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        pause_consumer(self._api, self.stream_name, self.name, until, timeout)

    def resume(self, *, timeout: Seconds | None = None) -> None:
        """Undo :meth:`pause` (server 2.11).

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; ApiLevelRequiredError (an
        older server) before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. After TimeoutError or DisconnectedError it may have been done.
        """
        resume_consumer(self._api, self.stream_name, self.name, timeout)

    def unpin(self, group: str, *, timeout: Seconds | None = None) -> None:
        """Take the pin of a priority group from the client that has it, so that the server chooses
        anew (server 2.11, policy ``pinned_client``, ADR-42). The same client may be chosen again.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        PriorityGroupError for an unknown group, ConsumerNotFoundError, StreamNotFoundError or
        another APIError; ConfigError and ApiLevelRequiredError (an older server) before anything is
        sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError. After
        TimeoutError or DisconnectedError it may have been done.
        """
        unpin_consumer(self._api, self.stream_name, self.name, group, timeout)

    def reset(self, seq: int | None = None, *, timeout: Seconds | None = None) -> None:
        """Deliver again: from stream sequence ``seq`` on, or what is not acknowledged yet if None.

        Consumer sequences begin again at 1 and what was delivered counts as not delivered. Needs
        server 2.14.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerResetError when the consumer's ``deliver_policy`` excludes the sequence,
        ConsumerNotFoundError, StreamNotFoundError or another APIError; ConfigError and
        ApiLevelRequiredError (an older server) before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        self._shared.cached_info = reset_consumer(
            self._api, self.stream_name, self.name, seq, timeout
        )

    def delete(self, *, timeout: Seconds | None = None) -> None:
        """Delete the consumer on the server, and give back what this handle holds.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        self.close()
        delete_consumer(self._api, self.stream_name, self.name, timeout)

    def close(self) -> None:
        """Give back what this handle holds; the consumer on the server stays. Does not block."""
        self._shared.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Dropped: its inboxes are of no use any more. On another thread, because this one may
        # hold any lock at this moment.
        shared = getattr(self, "_shared", None)
        if shared is not None and shared.needs_closing:
            self._port.later(0, lambda: shared.close(dropped=True))

    def __repr__(self) -> str:
        return f"Consumer({self.stream_name!r}, {self.name!r})"


def shared_of(consumer: Consumer) -> SharedConsumer:
    """The part that all readers of a consumer share: its info and the port to its connection. For
    the rooms of jetstream/ above this one. Does not block."""
    return consumer._shared


def begin_fetch(
    consumer: Consumer, max_messages: int, *, max_bytes: int, timeout: float
) -> PiecewisePull:
    """Begin to fetch what the consumer has now, in pieces, each within ``timeout``. For the rooms
    above jetstream/. Blocks only for room in the outbound buffer; raises like
    ``Consumer.fetch_no_wait``.

    The server looks at the time for each message of a pull that expires, so this one does not.
    """
    shared = consumer._shared
    shared.port.check()
    return shared.pull(BatchOptions(max_messages, max_bytes, timeout, mode=Mode.NO_WAIT))
