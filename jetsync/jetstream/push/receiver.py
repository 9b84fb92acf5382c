"""PushReceiver: handles messages and statuses of a deliver subject in the order the server sent
them.

Messages and statuses wait in one mailbox, so the thread that takes the next message also deals with
the statuses before it: that is the moment at which flow control is to be answered. The heartbeat
alarm, for which no thread waits, runs on the connection's timer.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from jetsync._core.deliveries import Deliveries
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import message_jsack
from jetsync._deadline import Deadline
from jetsync._locks import lock, rlock
from jetsync.client import Subscription
from jetsync.client.delivery import Delivery
from jetsync.client.port import Member
from jetsync.errors import (
    ConnectionClosedError,
    ConsumerDeletedError,
    ConsumerNotFoundError,
    Error,
    MessageGapError,
    MissedHeartbeatError,
    NotJetStreamMessageError,
    StreamNotFoundError,
    UnexpectedStatusError,
)
from jetsync.jetstream.config.consumer import AckPolicy
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.consumers.bound import BoundConsumer
from jetsync.jetstream.message import JetStreamMsg
from jetsync.jetstream.push.status import (
    ConsumerSequence,
    FlowControl,
    StatusKind,
    import_prefix,
    kind_of,
)
from jetsync.jetstream.push.watch import ALARM_INTERVALS, HeartbeatWatch

if TYPE_CHECKING:
    from jetsync.jetstream.api import API

__all__ = ["SHORTEST_REQUEST", "PushOptions", "PushReceiver", "begin", "end", "listen"]

SHORTEST_REQUEST = 0.1
"""Seconds for a request even when the caller has less: else short polls would get no answer."""

T = TypeVar("T")

_LOOKUP = 1.0
_ASK_AGAIN = 1.0


@dataclass(frozen=True)
class PushOptions:
    """How a push subscription behaves on this side."""

    callback: Callable[[JetStreamMsg], Any] | None = None
    manual_ack: bool = False
    manual_status: bool = False
    heartbeat_alarm: float | None = None
    delete_consumer: bool | None = None
    messages_limit: int = 0
    bytes_limit: int = 0


class _Receiving(Member):
    """Lets a push subscription follow the life of its connection."""

    def __init__(self, receiver: PushReceiver) -> None:
        self._receiver = weakref.ref(receiver)  # one that the user drops ends by itself

    def link_changed(self) -> None:
        receiver = self._receiver()
        if receiver is not None:
            receiver._on_link()

    def drain(self, deadline: Deadline) -> None:
        receiver = self._receiver()
        if receiver is not None:
            receiver._finish(deadline)

    def close(self) -> None:
        receiver = self._receiver()
        if receiver is not None:
            receiver._on_close()


class PushContext:
    """The consumer as the messages of a push subscription see it. Messages do not refer to the
    subscription, so dropping it frees it with its mailbox."""

    def __init__(self) -> None:
        self.cached_info: ConsumerInfo = ConsumerInfo()
        self.ack_none = False
        self.told_late = False

    def __repr__(self) -> str:
        info = self.cached_info
        return f"push consumer {info.name!r} of stream {info.stream_name!r}"


def _weakly(method: Callable[[], T]) -> Callable[[], T | None]:
    """Return a function that calls a method as long as its object lives."""
    reference = weakref.WeakMethod(method)

    def call() -> T | None:
        bound = reference()
        return None if bound is None else bound()

    return call


class PushReceiver(Subscription):
    """Takes the messages of a push subscription from its mailbox and acts on the statuses.

    Thread-safe: takers take turns, so that deliveries and statuses are judged in their order.
    """

    def __init__(self, api: API, queue: str | None, options: PushOptions) -> None:
        self._context = PushContext()
        super().__init__(
            api.port.connection, "", queue, self._new_mailbox(api, options), options.callback
        )
        self._api = api
        self._port = api.port
        self._dispatched: Delivery | None = None  # to the callback, if there is one
        self._member = _Receiving(self)
        self._options = options
        self._bound = BoundConsumer(api, ConsumerInfo())
        self._ack_none = False
        self._manual = options.manual_status
        # The fast path to the user; closed while a thread has the turn, and while `_early` holds
        # messages, which come first.
        self._deliveries = Deliveries(api.port.connection, self._mailbox)
        # Held by the thread that takes; it guards the next two attributes. Reentrant, so that a
        # signal handler that takes a message does not block its own thread.
        self._turn = rlock("jetstream/push/receiver.py _turn")
        self._early: collections.deque[JetStreamMsg] = collections.deque()
        self._flow: FlowControl | None = None
        self.resets = 0
        """How often the consumer was made anew, which only an ordered subscription does."""
        self._routes = lock("jetstream/push/receiver.py _routes")  # guards opening and ending
        self._over = False
        self._delete_at_end = False
        self._epoch = 0
        self._watch: HeartbeatWatch | None = None
        self._suspect_since: float | None = None  # when to ask whether the consumer exists

    # -- the way in --------------------------------------------------------------------------------

    def _new_mailbox(self, api: API, options: PushOptions) -> Mailbox:
        return Mailbox(
            limit_messages=options.messages_limit,
            limit_bytes=options.bytes_limit,
            msg_type=JetStreamMsg,
            owner=api.port.connection,
            context=self._context,
        )

    def _listen(self, subject: str) -> None:
        """Subscribe to a deliver subject, in place of the one before."""
        self._port.check()
        with self._routes:
            if self._over:
                raise ConnectionClosedError("the subscription has ended")
            if self._inbox is not None:
                self._inbox.release()
                self._mailbox = self._new_mailbox(self._api, self._options)
                self._deliveries.mailbox = self._mailbox
            self._inbox = self._port.open_inbox(subject, self._mailbox, queue=self.queue)
            self._port.attach(self._member)
            self.subject = subject

    def _begin(self, info: ConsumerInfo, *, created: bool) -> None:
        """The consumer exists: start to watch it."""
        self._bound = BoundConsumer(
            self._api,
            info,
            created=created,
            shared=self.queue is not None,
            override=self._options.delete_consumer,
        )
        self._ack_none = info.config.ack_policy == AckPolicy.NONE
        self._context.cached_info, self._context.ack_none = info, self._ack_none
        self._flow = self._flow_control(info)
        self._epoch = self._port.epoch
        if self.queue is None and not self._manual:
            self._deliveries.sequences = self._begin_sequences(info, created)
        self._deliveries.is_open = True
        beat = info.config.idle_heartbeat
        if beat and not self._manual:
            self._watch = HeartbeatWatch(
                self._port,
                beat,
                self._options.heartbeat_alarm or ALARM_INTERVALS * beat,
                last_sign=_weakly(self._last_sign),
                on_silence=_weakly(self._on_silence),
                on_tick=_weakly(self._sweep),
            )
            self._watch.tick()

    def _flow_control(self, info: ConsumerInfo) -> FlowControl | None:
        """The object that answers flow control; None when the consumer has none."""
        if not info.config.flow_control:
            return None
        return FlowControl(info.stream_name, info.name, import_prefix(self._api.prefix))

    def _begin_sequences(self, info: ConsumerInfo, created: bool) -> ConsumerSequence:
        """The sequence that the first delivery is compared with."""
        return ConsumerSequence(0 if created else None)

    def _end(self) -> None:
        """Nothing more comes in. Safe to repeat, any thread."""
        with self._routes:
            self._over = True
            inbox = self._inbox
        if self._dispatched is None:
            self._port.detach(self._member)
        if inbox is not None:
            inbox.close()
        self._mailbox.finish()

    def _on_close(self) -> None:
        """The connection has ended."""
        if self._callback is not None and not self._port.drained:
            self._mailbox.discard()  # a callback that went on could neither ack nor publish
        self._mailbox.wake()

    def _finish(self, deadline: Deadline) -> None:
        """The connection drains, and nothing more comes."""
        raise NotImplementedError

    # -- taking ------------------------------------------------------------------------------------

    def _take(self, deadline: Deadline, check_by: Deadline | None = None) -> JetStreamMsg | None:
        """The next message for the user; None when the time is up or it is over. ``check_by``: how
        long a lookup may take, when that is not as long as the message is waited for."""
        if not self._take_turn(deadline):
            return None
        try:
            while True:
                if self._suspect_since is not None:
                    self._check_consumer(check_by or deadline)
                msg = self._early.popleft() if self._early else self._from_mailbox(deadline)
                if msg is not None:
                    if self._settle(msg):
                        self._deliveries.taken += 1
                        if self._deliveries.taken == self._deliveries.stop_at:
                            self._stop_now()
                        return msg
                elif self._exhausted or deadline.expired:
                    return None
        finally:
            self._give_turn()

    def _take_turn(self, deadline: Deadline) -> bool:
        left = deadline.remaining()
        seconds = -1 if left is None else min(left, threading.TIMEOUT_MAX)
        if not self._turn.acquire(timeout=seconds):
            return False
        self._deliveries.is_open = False
        return True

    def _give_turn(self) -> None:
        self._deliveries.is_open = not self._early
        self._turn.release()

    def _from_mailbox(self, deadline: Deadline) -> JetStreamMsg | None:
        wait = deadline.remaining()
        due = self._suspect_since
        if due is not None and self._port.linked:  # otherwise the new link wakes this thread
            until_check = max(0.01, due - time.monotonic())
            wait = until_check if wait is None else min(wait, until_check)
        return cast("JetStreamMsg | None", self._mailbox.get(wait))

    def _next_ready(self) -> JetStreamMsg | None:
        """Take the items of the mailbox, without waiting."""
        return cast("JetStreamMsg | None", self._mailbox.get(0))

    @property
    def _sequence(self) -> ConsumerSequence | None:
        return cast("ConsumerSequence | None", self._deliveries.sequences)

    @property
    def _exhausted(self) -> bool:
        return self._mailbox.ended and not self._early

    def _settle(self, msg: JetStreamMsg) -> bool:
        """Handle a status or a gap; returns whether the message is for the user."""
        if self._manual:
            return True
        if msg.status and not msg.data:
            self._on_status(msg)
            return False
        if self._sequence is None:
            return True
        try:
            fields = message_jsack(msg)
        except NotJetStreamMessageError as error:
            self._port.report(error)
            return False
        return self._on_delivery(fields[5], fields[6])

    def _on_delivery(self, stream_seq: int, consumer_seq: int) -> bool:
        """A message with these sequences came; returns whether the user gets it."""
        assert self._sequence is not None
        expected = self._sequence.delivery(consumer_seq, stream_seq)
        if expected is not None:
            self._on_gap(expected, consumer_seq)
        return True

    def _stop_now(self) -> None:
        """The last message that was wanted is being handed out. ``_turn`` is held."""
        self._end()
        while (msg := self._early.popleft() if self._early else self._next_ready()) is not None:
            if not self._bound.ends_with_subscription and not msg.status:
                msg.nak()  # another client may have it at once
        if self._bound.ends_with_subscription:
            with contextlib.suppress(ConnectionClosedError):  # it was closed meanwhile
                self._port.start_thread("delete", self._bound.delete_and_tell)

    # -- statuses ----------------------------------------------------------------------------------

    def _on_status(self, msg: JetStreamMsg) -> None:
        kind = kind_of(msg)
        if kind is StatusKind.HEARTBEAT and self._sequence is not None:
            gap = self._sequence.heartbeat(msg)
            if gap is not None:
                self._on_gap(*gap)
        if kind in (StatusKind.HEARTBEAT, StatusKind.FLOW_CONTROL):
            self._answer_flow_control(msg)
        elif kind is StatusKind.DELETED:
            self._gone(f"{msg.status} {msg.description}")
        else:
            self._port.report(
                UnexpectedStatusError(
                    f"{self!r} got the status {msg.status} {msg.description}".rstrip(),
                    status=msg.status,
                ),
            )

    def _answer_flow_control(self, msg: JetStreamMsg) -> None:
        subject = None if self._flow is None else self._flow.question(msg)
        if subject is None:
            return
        try:
            self._port.outbound.publish(subject, b"", None, b"", False)
            self._port.outbound.send_now()
        except Error as error:
            if not self._port.closed:
                self._port.report(error)

    def _on_gap(self, expected: int, received: int) -> None:
        count = received - expected
        after = (
            "they are lost: the consumer has ack policy none"
            if self._ack_none
            else "they are delivered again after ack_wait"
        )
        self._port.report(
            MessageGapError(
                f"{count} message(s) for {self!r} did not arrive (consumer sequence {expected} was "
                f"next, {received} came); {after}",
                expected=expected,
                received=received,
            ),
        )

    # -- watching ----------------------------------------------------------------------------------

    def _on_link(self) -> None:
        """The link has come or gone: check that the consumer still exists."""
        epoch = self._port.epoch
        if epoch != self._epoch and self._port.linked:
            self._epoch = epoch
            if self._watch is not None:
                self._watch.restart()
            self._on_new_link()
        self._mailbox.wake()

    def _on_new_link(self) -> None:
        self._suspect_since = time.monotonic()

    def _last_sign(self) -> tuple[float, int] | None:
        """When something came last, and how often the link had received anything by then; None
        when nothing will come any more."""
        mailbox = self._mailbox
        return None if self._over or mailbox.finished else (mailbox.last_put, mailbox.last_reads)

    def _on_silence(self) -> None:
        assert self._watch is not None
        beat, alarm = self._watch.beat, self._watch.alarm
        self._port.report(
            MissedHeartbeatError(
                f"{self!r}: nothing came for {alarm:g} s, although there should be a heartbeat "
                f"every {beat:g} s",
                seconds=alarm,
            ),
        )
        self._suspect_since = time.monotonic()
        self._mailbox.wake()

    def _sweep(self) -> None:
        """Deal with statuses at the head of the mailbox although no thread is taking: they would
        fill it up, and a question before which everything was handed out is due for its answer.
        With a callback its thread does that, when the callback has returned."""
        if self._callback is not None or not self._take_turn(Deadline(0)):
            return
        try:
            while not self._manual and not self._early:
                msg = self._next_ready()
                if msg is None:
                    return
                if msg.status and not msg.data:
                    self._on_status(msg)
                else:
                    self._early.append(msg)
        finally:
            self._give_turn()

    def _check_consumer(self, deadline: Deadline) -> None:
        """Ask whether the consumer still exists, when it is time. ``_turn`` is held."""
        due = self._suspect_since
        if due is None or due > time.monotonic() or not self._port.linked or self._over:
            return
        if self._mailbox.last_put > due or self._mailbox.pending_messages:
            # It still delivers, or messages wait to be taken first.
            self._suspect_since = None if self._mailbox.last_put > due else due
            return
        try:
            self._bound.ask(max(deadline.within(_LOOKUP), SHORTEST_REQUEST))
        except (ConsumerNotFoundError, StreamNotFoundError) as error:
            self._gone(str(error))
        except ConnectionClosedError:
            return
        except Error:
            self._suspect_since = time.monotonic() + _ASK_AGAIN
        else:
            if self._suspect_since == due:
                self._suspect_since = None

    def _gone(self, reason: str) -> None:
        """The consumer does not exist any more: waiting messages can be taken, then the
        subscription ends."""
        error = ConsumerDeletedError(f"{self!r}: the consumer was deleted: {reason}")
        self._suspect_since = None
        self._bound.forget()
        self._mailbox.finish(error)
        self._end()
        if self._callback is None:
            self._port.report(error)  # otherwise the callback's thread reports it

    # -- for messages and errors -------------------------------------------------------------------

    @property
    def stream_name(self) -> str:
        """The stream the messages come from."""
        return self._bound.stream_name

    @property
    def name(self) -> str:
        """The consumer that sends them."""
        return self._bound.name

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({self.stream_name!r}, {self.name!r}, queue={self.queue!r})"


# -- calls of the subscribe workflow while it sets one up ------------------------------------------


def listen(push: PushReceiver, subject: str) -> None:
    """Subscribe to a deliver subject, in place of the one before. Does not block."""
    push._listen(subject)


def begin(push: PushReceiver, info: ConsumerInfo, *, created: bool) -> None:
    """The consumer is there: start to watch, and the callback if there is one."""
    push._begin(info, created=created)


def end(push: PushReceiver) -> None:
    """Setting it up has failed: nothing more comes in. Safe to repeat."""
    push._end()
