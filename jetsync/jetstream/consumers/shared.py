"""SharedConsumer: what a ``Consumer``, its pull inboxes and its messages have in common.

Messages and inboxes refer to this object and not to the ``Consumer`` that the user holds. So a
``Consumer`` that the user drops is noticed at once, and its inboxes are given back.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING

from jetsync._core.delivered import is_settled
from jetsync._counted import counted
from jetsync._deadline import Seconds
from jetsync._locks import lock
from jetsync.errors import ConfigError, Error, SlowAckWarning
from jetsync.jetstream.api import API, decode
from jetsync.jetstream.config.consumer import AckPolicy
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.consumers.requests import consumer_info
from jetsync.jetstream.pull.batch import BatchOptions, BatchPull, Mode
from jetsync.jetstream.pull.inbox import PullInbox
from jetsync.jetstream.pull.options import check_count, heartbeat_for
from jetsync.jetstream.pull.pieces import PiecewisePull
from jetsync.jetstream.pull.priority import Pin, check_group, new_pin
from jetsync.jetstream.pull.source import PlainSource

if TYPE_CHECKING:
    from jetsync.client.port import Port, Reply
    from jetsync.jetstream.message import JetStreamMsg, MsgBatch

__all__ = ["SharedConsumer"]

_KEPT_FOR = 1.0
"""Seconds for which messages that came too late for a fetch wait for the next one."""

_MANY = 0.8
"""The share of ``max_ack_pending`` above which missing acknowledgements are reported."""

_ANSWERED_WITHIN = 1.0

_OPEN_FOR = 60.0
"""Seconds for which the server may leave a pull of an earlier fetch without a final status."""


class SharedConsumer:
    """A pull consumer as this process knows it. Thread-safe."""

    def __init__(self, api: API, info: ConsumerInfo) -> None:
        self.api = api
        self.port: Port = api.port
        self.cached_info: ConsumerInfo = info
        self.stream_name: str = info.stream_name
        self.name: str = info.name
        self._lock = lock("jetstream/consumers/shared.py _lock")
        self._idle: list[PullInbox] = []
        self._left: list[PullInbox] = []  # closed, with late messages
        self._is_dropped = False
        # Priority groups: the ids that fetches share, and every id that is in use.
        self._fetch_pins: dict[str, Pin] = {}
        self.pins: dict[str, str] = {}
        self.told_late = False
        self._told_full = False
        self._given_out = 0  # messages since the acknowledgements were counted
        config = info.config
        self.ack_none: bool = config is not None and config.ack_policy == AckPolicy.NONE

    def info(self, timeout: Seconds | None) -> ConsumerInfo:
        """Ask the server about the consumer. Blocks; raises ConsumerNotFoundError, TimeoutError."""
        self.cached_info = consumer_info(self.api, self.stream_name, self.name, timeout)
        return self.cached_info

    def priority(
        self,
        group: str | None,
        min_pending: int | None = None,
        min_ack_pending: int | None = None,
        priority: int | None = None,
    ) -> dict[str, object]:
        """The priority-group part of a pull, checked against what is known of the consumer."""
        config = self.cached_info.config
        has_groups = config is not None and config.priority_groups
        if not has_groups and (group, min_pending, min_ack_pending, priority) == (None,) * 4:
            return {}  # as it is nearly always
        return check_group(
            config,
            group=group,
            min_pending=min_pending,
            min_ack_pending=min_ack_pending,
            priority=priority,
        )

    def _fetch_pin(self, group: object) -> Pin | None:
        """The pinned id that all fetches share in a group; None when the group pins no client."""
        with self._lock:
            pin = self._fetch_pins.get(str(group)) or new_pin(self, group)
            if pin is not None:
                self._fetch_pins[str(group)] = pin
            return pin

    def fetch(self, options: BatchOptions) -> MsgBatch:
        """Fetch one batch. Blocks; see ``Consumer.fetch``."""
        inbox = self._borrow()
        try:
            inbox.pin = self._fetch_pin(options.group.get("group")) if options.group else None
            batch = BatchPull(PlainSource(inbox), options).run()
            assert batch is not None
            self._given_out += len(batch)
            if not len(batch):
                self._watch_acks()
            return batch
        finally:
            self._park(inbox)

    def pull(self, options: BatchOptions) -> PiecewisePull:
        """Send a pull whose messages are taken in pieces. Blocks only for room in the outbound
        buffer."""
        inbox = self._borrow()
        return PiecewisePull(PlainSource(inbox), options, lambda: self._park(inbox))

    def ack_and_fetch(
        self,
        msg: JetStreamMsg,
        *,
        max_messages: int | None,
        max_bytes: int | None,
        timeout: Seconds | None,
        no_wait: bool,
        group: str | None,
        min_pending: int | None,
        min_ack_pending: int | None,
        priority: int | None,
    ) -> MsgBatch:
        """Acknowledge a message and fetch the next ones with the same request (``+NXT``).

        Blocks; see ``JetStreamMsg.ack_next``. The server answers such an acknowledgement with
        nothing but messages. Whether it arrived is therefore not known when the link breaks before
        the first one: then it is sent once more.
        """
        check_count("max_messages", max_messages)
        check_count("max_bytes", max_bytes)
        if self.ack_none:
            raise ConfigError("ack policy is none: nothing is acknowledged here, use fetch()")
        self.port.check()
        seconds = self.port.seconds(timeout)
        return self.fetch(
            BatchOptions(
                max_messages,
                max_bytes,
                seconds,
                None if no_wait else heartbeat_for(seconds, None, "the timeout"),
                Mode.NO_WAIT if no_wait else Mode.WAIT,
                self.priority(group, min_pending, min_ack_pending, priority),
                None if is_settled(msg) else msg,
            )
        )

    def _watch_acks(self) -> None:
        """After an empty batch with many messages unacknowledged: ask whether ``max_ack_pending``
        is the reason, and tell the user. Does not block."""
        config = self.cached_info.config
        most = 0 if config is None or self.ack_none else config.max_ack_pending or 0
        if most <= 0 or self._told_full or self._given_out < _MANY * most:
            return
        self._given_out = 0
        port = self.port
        subject = self.api.subject(f"CONSUMER.INFO.{self.stream_name}.{self.name}")
        try:
            reply = port.ask(subject, seconds=0.1)
        except Error:
            return  # there is no link at this moment
        port.later(_ANSWERED_WITHIN, lambda: self._tell_if_full(reply, most))

    def _tell_if_full(self, reply: Reply, most: int) -> None:
        msg = reply.mailbox.get(0)
        reply.close()
        if msg is None:
            return
        try:
            unacked = ConsumerInfo.from_wire(decode(msg.data)).num_ack_pending
        except Error:
            return
        if unacked >= _MANY * most:
            self._told_full = True
            self.port.report(
                SlowAckWarning(
                    f"{self!r} delivers nothing more: "
                    + counted(unacked, "message is", "messages are")
                    + f" not acknowledged, and max_ack_pending is {most}; acknowledge them, or "
                    "raise max_ack_pending"
                )
            )

    # -- inboxes: an idle one is kept, so the next fetch costs one request ------------------------

    def _borrow(self) -> PullInbox:
        """Lend an inbox to one call. What the call leaves in it is there for the next one."""
        inbox = None
        with self._lock:
            idle, left = self._idle, self._left
            if idle:
                inbox = idle[-1]
                for one in idle[:-1]:
                    if one.has_messages:
                        inbox = one
                idle.remove(inbox)
            self._left = []
        if inbox is None:
            inbox = PullInbox(self)
        for other in left:
            other.begin(1 << 62)
            inbox.adopt(other.release())
            inbox.is_left_over = True
        return inbox

    def _park(self, inbox: PullInbox) -> None:
        """Keep an inbox for the next call, if it is still good for one."""
        with self._lock:
            keep = not (self._is_dropped or inbox.closed or inbox.mailbox.finished)
            if keep:
                self._idle.append(inbox)
        inbox.is_left_over = inbox.state.is_open or inbox.has_messages
        if not keep:
            inbox.close()
        elif inbox.is_left_over:
            now = time.monotonic()
            self._sweep_later(inbox, now)

    @property
    def delivers_again(self) -> bool:
        """Whether a message that is handed back is delivered again in any case: no limit of
        deliveries and no policy that counts it as done."""
        config = self.cached_info.config
        if config is None or self.ack_none:
            return False
        return config.max_deliver is None or config.max_deliver <= 0

    def _sweep_later(self, inbox: PullInbox, since: float) -> None:
        """Check an idle inbox later, on the timer. The timer holds neither it nor the
        connection."""
        consumer, idle = weakref.ref(self), weakref.ref(inbox)

        def sweep() -> None:
            one, other = consumer(), idle()
            if one is not None and other is not None:
                one._sweep(other, since)

        self.port.later(_KEPT_FOR, sweep)

    def _sweep(self, inbox: PullInbox, since: float) -> None:
        """Empty an inbox for which no call came in time. On the timer thread.

        It goes back to the server, if the consumer has no limit of deliveries; else it waits
        for the next call.
        """
        with self._lock:
            if inbox not in self._idle:
                return
            self._idle.remove(inbox)
        if self.delivers_again:
            inbox.hand_back()
        if not inbox.lost_link():
            inbox.went_silent()  # then its pulls are called off
        with self._lock:
            stays = not self._is_dropped and time.monotonic() - since < _OPEN_FOR
            stays = stays or not inbox.state.is_open
            if stays:
                self._idle.insert(0, inbox)
        if not stays:
            inbox.retire()
        elif inbox.state.is_open:
            self._sweep_later(inbox, since)

    def keep_left(self, inbox: PullInbox) -> None:
        """Keep what a closed inbox had got before the server knew, for the next call."""
        with self._lock:
            keep = not self._is_dropped and inbox.has_messages
            if keep:
                self._left.append(inbox)
        if not keep:
            inbox.hand_back()

    @property
    def needs_closing(self) -> bool:
        """Whether there is an inbox to give back."""
        return bool(self._idle or self._left) and not self.port.closed

    def close(self, *, dropped: bool = False) -> None:
        """Close the idle inboxes and hand back the messages in them. Does not block."""
        with self._lock:
            self._is_dropped = self._is_dropped or dropped
            idle, self._idle = self._idle, []
            left, self._left = self._left, []
        for inbox in idle:
            inbox.close()
        for inbox in left:
            inbox.hand_back()

    def __repr__(self) -> str:
        return f"Consumer({self.stream_name!r}, {self.name!r})"
