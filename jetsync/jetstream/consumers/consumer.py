"""Consumer: a handle on a pull consumer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Seconds, to_seconds
from jetsync.client.runner import check_callback
from jetsync.errors import ConfigError, TimeoutError
from jetsync.jetstream.consumers.config import AckPolicy
from jetsync.jetstream.consumers.diagnosis import explain_stall
from jetsync.jetstream.consumers.info import ConsumerInfo, ConsumerLag
from jetsync.jetstream.consumers.priority import Pin, check_group
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.pull.buffering import check_count
from jetsync.jetstream.pull.engine import IDLE_HEARTBEAT, PullEngine
from jetsync.jetstream.pull.fetch import fetch
from jetsync.jetstream.pull.messages import ConsumeContext, MessageStream

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.jetstream.consumers.manager import ConsumerManager
    from jetsync.jetstream.pull.buffering import MessagesOptions

__all__ = ["Consumer"]


class Consumer:
    """A pull consumer of a stream. Made by the consumer calls of ``JetStream`` and ``Stream``.

    Thread-safe: several threads may fetch at once. As a context manager it gives its inboxes back
    at the end; the consumer on the server stays.
    """

    def __init__(self, js: ConsumerManager, info: ConsumerInfo) -> None:
        self._js = js
        self._info = info
        self.stream_name = info.stream_name
        self.name = info.name
        self._lock = threading.Lock()
        self._idle: list[PullEngine] = []
        # Priority groups: the ids that fetches share, and every id that this handle has in use.
        self._fetch_pins: dict[str, Pin] = {}
        self._pins: dict[str, str] = {}
        self._ack_none = info.config is not None and info.config.ack_policy == AckPolicy.NONE

    # -- engines: an idle one keeps its inbox, so the next fetch costs one request ----------------

    @contextlib.contextmanager
    def _engine(self) -> Iterator[PullEngine]:
        with self._lock:
            engine = self._idle.pop() if self._idle else None
        if engine is None:
            engine = PullEngine(self)
        try:
            yield engine
        except BaseException:
            engine.close()
            raise
        with self._lock:
            if engine.closed or engine.mailbox.finished:
                return
            self._idle.append(engine)

    def _priority(
        self,
        group: str | None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
    ) -> dict[str, object]:
        """The priority-group part of a pull, checked against what is known of the consumer."""
        return check_group(
            self._info.config,
            group=group,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
            priority=priority,
        )

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
        and returns what came, maybe nothing: an empty batch is not an error. With ``eager`` it
        returns as soon as something came and nothing more is ready. The remainder is asked for
        again after a reconnect or a change of leader within the same time. ``batch.error`` says why
        a pull ended early.

        Raises ConsumerDeletedError at once when the consumer is gone and nothing came,
        PullTerminatedError when the server refuses the pull, ConfigError, ConnectionClosedError.
        """
        if max_messages is None and max_bytes is None:
            raise ConfigError("fetch needs max_messages or max_bytes")
        check_count("max_messages", max_messages)
        check_count("max_bytes", max_bytes)
        self._js._port.check()
        seconds = self._js._port.seconds(timeout)
        beat = None
        if heartbeat is not None:
            beat = to_seconds(heartbeat, "heartbeat")
            if beat * 2 > seconds:
                raise ConfigError("heartbeat must be at most half of the timeout")
        elif seconds >= 2 * IDLE_HEARTBEAT:
            beat = IDLE_HEARTBEAT
        options = self._priority(group, min_pending, min_ack_pending, priority)
        with self._engine() as engine:
            return fetch(
                self,
                engine,
                max_messages=max_messages,
                max_bytes=max_bytes,
                timeout=seconds,
                heartbeat=beat,
                no_wait=False,
                eager=eager,
                group=options,
            )

    def fetch_no_wait(
        self,
        max_messages: int,
        *,
        group: str | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
    ) -> MsgBatch:
        """Fetch what is there now, at most ``max_messages``. Blocks for a round trip only.

        Raises like :meth:`fetch`.
        """
        check_count("max_messages", max_messages)
        self._js._port.check()
        options = self._priority(group, min_pending, min_ack_pending, priority)
        with self._engine() as engine:
            return fetch(
                self,
                engine,
                max_messages=max_messages,
                max_bytes=None,
                timeout=self._js._api.timeout,
                heartbeat=None,
                no_wait=True,
                eager=False,
                group=options,
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
        """Return one message. Blocks up to ``timeout`` seconds; TimeoutError when none came.

        Raises like :meth:`fetch` besides.
        """
        batch = self.fetch(
            1,
            timeout=timeout,
            group=group,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
            priority=priority,
        )
        if not len(batch):
            raise TimeoutError(
                f"no message from {self!r} within {self._js._port.seconds(timeout):g} s",
                operation="next",
            )
        return batch[0]

    def messages(
        self,
        *,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        expires: Seconds = 30.0,
        heartbeat: Seconds | None = None,
        threshold_messages: int | None = None,
        threshold_bytes: int | None = None,
        group: str | None = None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
        on_missed_heartbeat: str = "warn",
        on_warning: Callable[[Exception], Any] | None = None,
        on_pinned: Callable[[str], Any] | None = None,
        on_unpinned: Callable[[str], Any] | None = None,
        stop_after: int | None = None,
    ) -> MessageStream:
        """Return an endless iterator over the messages, with a buffer that refills itself.

        ``max_messages`` (default 1000) or ``max_bytes``, not both, bounds the buffer; at the
        threshold (default half of it) the next pull is sent. ``expires`` is the length of
        one pull on the server (1 s or more), ``heartbeat`` (default half of it, at most 2 s) how
        often the server shows that it is alive. Server restarts, reconnects and leader changes are
        got over without help; warnings go to ``on_warning`` and the log, and two missed heartbeats
        are one: with ``on_missed_heartbeat="stop"`` they end the stream with PullTerminatedError.
        ``stop_after`` ends the iteration after so many messages. Does not block; taking does.

        In a priority group (ADR-42) ``group`` is needed; ``min_pending``, ``min_ack_pending`` are
        for the policy overflow, ``priority`` (0 first, to 9) for prioritized. With pinned_client
        ``on_pinned`` and ``on_unpinned`` are called with the id that the server gave or took, in
        the thread that takes messages. Raises ConfigError for what the consumer has no use for.
        """
        self._js._port.check()
        return MessageStream(
            self,
            max_messages=max_messages,
            max_bytes=max_bytes,
            expires=to_seconds(expires, "expires"),
            heartbeat=None if heartbeat is None else to_seconds(heartbeat, "heartbeat"),
            threshold_messages=threshold_messages,
            threshold_bytes=threshold_bytes,
            group=self._priority(group, min_pending, min_ack_pending, priority),
            on_missed_heartbeat=on_missed_heartbeat,
            on_warning=on_warning,
            on_pinned=on_pinned,
            on_unpinned=on_unpinned,
            stop_after=stop_after,
        )

    def consume(
        self, callback: Callable[[JetStreamMsg], Any], **options: Unpack[MessagesOptions]
    ) -> ConsumeContext:
        """Give every message to ``callback``, one by one, on a thread of its own.

        Takes the options of :meth:`messages`. An exception of the callback goes to the connection's
        ``on_error``; the message is not acknowledged for you and the next one is delivered.
        """
        check_callback(callback)
        return ConsumeContext(self.messages(**options), callback)

    # -- looking after it --------------------------------------------------------------------------

    def info(self, *, timeout: Seconds | None = None) -> ConsumerInfo:
        """Ask the server about the consumer. Blocks; raises ConsumerNotFoundError, TimeoutError."""
        self._info = self._js._consumer_info(self.stream_name, self.name, timeout)
        return self._info

    @property
    def cached_info(self) -> ConsumerInfo:
        """What the server said last. Does not block."""
        return self._info

    def lag(self, *, timeout: Seconds | None = None) -> ConsumerLag:
        """Ask how far the consumer is behind its stream. Blocks like :meth:`info`."""
        return ConsumerLag.from_info(self.info(timeout=timeout))

    def explain_stall(self, *, timeout: Seconds | None = None) -> str | None:
        """Ask why nothing comes, and say it in one sentence; None when nothing is in the way.

        It knows: no link, the stream or consumer gone, no leader, a push consumer, paused, too many
        unacknowledged messages, pinned to another client, nothing (that matches) to deliver, nobody
        pulls. Blocks for a round trip, with a filter for some more; raises ConnectionClosedError.
        """
        seconds = to_seconds(self._js._api.timeout if timeout is None else timeout)
        return explain_stall(self, seconds)

    def pause(self, until: datetime, *, timeout: Seconds | None = None) -> None:
        """Deliver nothing until a point in time (server 2.11). Blocks."""
        self._js.pause_consumer(self.stream_name, self.name, until, timeout=timeout)

    def resume(self, *, timeout: Seconds | None = None) -> None:
        """Undo :meth:`pause`. Blocks."""
        self._js.resume_consumer(self.stream_name, self.name, timeout=timeout)

    def unpin(self, group: str, *, timeout: Seconds | None = None) -> None:
        """Take the pin of a priority group from the client that has it, so that the server chooses
        anew (server 2.11, policy ``pinned_client``). Blocks; raises PriorityGroupError."""
        self._js.unpin_consumer(self.stream_name, self.name, group, timeout=timeout)

    def reset(self, seq: int | None = None, *, timeout: Seconds | None = None) -> None:
        """Deliver again: from stream sequence ``seq`` on, or what is not acknowledged yet if None.

        Needs server 2.14. Blocks; raises ConsumerResetError when the consumer's ``deliver_policy``
        excludes the sequence, ConsumerNotFoundError.
        """
        self._info = self._js.reset_consumer(self.stream_name, self.name, seq, timeout=timeout)

    def delete(self, *, timeout: Seconds | None = None) -> None:
        """Delete the consumer on the server. Blocks; raises ConsumerNotFoundError."""
        self.close()
        self._js.delete_consumer(self.stream_name, self.name, timeout=timeout)

    def close(self) -> None:
        """Give back what this handle holds; the consumer on the server stays. Does not block."""
        with self._lock:
            idle, self._idle = self._idle, []
        for engine in idle:
            engine.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Consumer({self.stream_name!r}, {self.name!r})"
