"""PushSubscription: the messages that a push consumer sends to a subject of this client."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import TracebackType

from jetsync._core.deliveries import DeliveryIterator
from jetsync._core.mailbox import Mailbox
from jetsync._counted import counted
from jetsync._deadline import Deadline, Seconds
from jetsync._numbers import check_whole
from jetsync.client.delivery import Delivery, wait_taken
from jetsync.errors import (
    ConfigError,
    ConnectionClosedError,
    DisconnectedError,
    TimeoutError,
)
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.consumers.bound import unsubscribe_at_exit
from jetsync.jetstream.message import JetStreamMsg, origin
from jetsync.jetstream.push.receiver import PushReceiver

__all__ = ["PushSubscription"]

_TURN = 64
"""Messages that go to the callback before the dispatcher turns to other mailboxes."""


class PushSubscription(PushReceiver):
    """Messages of a push consumer. Made by ``JetStream.subscribe``.

    Statuses are dealt with and not handed out, unless ``manual_status`` was asked for. What goes
    wrong outside of a call is given to the connection's ``on_error``: MissedHeartbeatError,
    MessageGapError, UnexpectedStatusError, SlowConsumerError, ConsumerDeletedError.

    Thread-safe: several threads may call :meth:`next`, every message goes to exactly one of them.
    As a context manager it unsubscribes at the end.
    """

    def _begin(self, info: ConsumerInfo, *, created: bool) -> None:
        """The consumer is there: start to watch, and the callback if there is one."""
        super()._begin(info, created=created)
        if self._callback is not None:
            self._dispatched = Delivery(self._port, self._mailbox, self._on_end, step=self._step)

    def _step(self) -> Mailbox | None:
        """Give what came to the callback, without waiting for more: see ``Task``."""
        callback = self._callback
        assert callback is not None
        acknowledges = not (self._options.manual_ack or self._manual or self._ack_none)
        # Nothing happens when the callback has settled its message itself.
        self._deliveries.deliver(
            callback, self._callback_failed, self._take_at_once, acknowledges, _TURN
        )
        if self._port.closed or self._exhausted:
            return None
        due = self._suspect_since
        if due is not None and self._port.linked:  # otherwise the new link wakes this thread
            self._port.later(max(0.01, due - time.monotonic()), self._mailbox.wake)
        return self._mailbox

    def _take_at_once(self) -> JetStreamMsg | None:
        return self._take(Deadline(0.0), Deadline(None))

    def _callback_failed(self, error: BaseException, msg: JetStreamMsg) -> None:
        stream, consumer = origin(msg)
        self._port.callback_failed(error, msg, stream=stream, consumer=consumer)

    def _on_end(self, error: BaseException | None) -> None:
        """The callback has processed every message."""
        error = error or self._mailbox.error
        if error is not None and not self._port.closed:
            self._port.report(error)
        try:
            # A drain of the connection waits for its members only: this one stays until the
            # consumer is deleted.
            if self._delete_at_end or self._port.draining:
                self._bound.delete_and_tell()
        finally:
            self._port.detach(self._member)

    # -- taking ------------------------------------------------------------------------------------

    def next(self, timeout: Seconds | None = None) -> JetStreamMsg:
        """Return the next message. Blocks up to ``timeout`` seconds (default: the connection's).

        Raises TimeoutError when none came, ConsumerDeletedError when the consumer is gone,
        ConnectionClosedError when the connection or the subscription has ended, PermissionsError
        when the server refused it, ConfigError when the subscription has a callback.
        """
        self._port.check()
        if self._callback is not None:
            raise ConfigError(
                "this subscription delivers to its callback: next() would take its messages"
            )
        seconds = self._port.seconds(timeout)
        msg: JetStreamMsg | None = self._deliveries.take() or self._take(Deadline(seconds))
        if msg is not None:
            return msg
        if self._exhausted:
            raise self._mailbox.error or ConnectionClosedError(
                f"subscription {self.subject!r} has ended and every message was taken"
            )
        raise TimeoutError(f"no message from {self!r} within {seconds:g} s", operation="next")

    def __iter__(self) -> Iterator[JetStreamMsg]:
        """Iterate over the messages until the subscription ends. Blocks while there are none."""
        self._port.check()
        if self._callback is not None:
            raise ConfigError(
                "this subscription delivers to its callback: iterating would take its messages"
            )
        return self._all()

    def _all(self) -> Iterator[JetStreamMsg]:
        return DeliveryIterator(self._deliveries, self._slow_next)

    def _slow_next(self) -> JetStreamMsg:
        """The slow path of iteration: handle a status, or wait."""
        endless = Deadline(None)
        while not self._port.closed:
            msg = self._take(endless)
            if msg is not None:
                return msg
            if self._exhausted:
                if self._mailbox.error is not None:
                    raise self._mailbox.error
                break
        raise StopIteration

    # -- ending ------------------------------------------------------------------------------------

    def unsubscribe(
        self, max_messages: int | None = None, *, timeout: Seconds | None = None
    ) -> None:
        """Stop receiving, then delete the consumer if this subscription made it.

        With ``max_messages`` that happens when so many were handed out in all. What waits can still
        be taken. Safe to repeat.

        Blocks up to ``timeout`` seconds (default: the JetStream object's) for the deletion and
        raises what goes wrong there; that the consumer is gone already is not an error. Raises an
        APIError; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError.
        """
        self._port.check()
        if max_messages is not None:
            check_whole("max_messages", max_messages)
            # Counted here: the server's count would include the statuses.
            self._deliveries.stop_at = max_messages
            if self._deliveries.taken < max_messages:
                return
        self._end()
        self._bound.delete(timeout)

    def drain(self, timeout: Seconds | None = None) -> None:
        """Stop receiving, wait until everything that the server had sent is consumed, then delete
        the consumer if this subscription made it. If the link breaks meanwhile, what came over it
        is consumed, and the consumer is deleted over the next one. With a callback this waits for
        it; without one another thread has to take the messages.

        Blocks up to ``timeout`` seconds (default: the connection's). Raises TimeoutError when that
        was too short, and what the deletion raises, which ``on_error`` gets too: an APIError;
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        self._port.check()
        seconds = self._port.seconds(timeout)
        deadline = Deadline(seconds)
        if self._inbox is not None:
            self._inbox.stop()
        # The PONG follows every message sent to this client, and so does the end of the link: after
        # either of them no message is under way.
        with contextlib.suppress(DisconnectedError):
            self._port.flush(deadline)
        self._end()
        if self._is_callback:
            # The callback itself drains: it gets the remaining messages after it returns.
            self._delete_at_end = True
            return
        self._wait_consumed(deadline)
        error = self._bound.delete_and_tell(deadline.remaining())
        if error is not None:
            raise error

    def _finish(self, deadline: Deadline) -> None:
        """The connection drains, and nothing more comes."""
        self._end()
        if self._callback is not None:
            self._wait_consumed(deadline)
        self._bound.delete_and_tell(deadline.remaining())

    def _wait_consumed(self, deadline: Deadline) -> None:
        if self._callback is None:
            self._keep_messages(deadline)
        if self._is_callback:
            return  # the callback itself drains: it gets the remaining messages after it returns
        wait_taken(self._port, self.subject, self._mailbox, deadline)
        if self._dispatched is not None and not self._dispatched.wait(deadline.remaining()):
            raise TimeoutError(
                f"the callback of {self!r} did not finish in time", operation="drain"
            )
        while self._early:
            self._port.check()
            left = deadline.within(0.02)
            if left <= 0:
                raise TimeoutError(
                    counted(
                        len(self._early),
                        f"message of {self!r} was",
                        f"messages of {self!r} were",
                    )
                    + " not taken in time",
                    operation="drain",
                )
            self._port.sleep(left)

    @property
    def _is_callback(self) -> bool:
        return self._dispatched is not None and self._dispatched.on_this_thread

    def _keep_messages(self, deadline: Deadline) -> None:
        """Separate the messages that wait from the statuses between them, which are of no use any
        more."""
        if not self._take_turn(deadline):
            return
        try:
            while (msg := self._next_ready()) is not None:
                if self._manual or not msg.status or msg.data:
                    self._early.append(msg)
        finally:
            self._give_turn()

    # -- state -------------------------------------------------------------------------------------

    def info(self, *, timeout: Seconds | None = None) -> ConsumerInfo:
        """Ask the server about the consumer.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError, StreamNotFoundError or another APIError; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return self._bound.ask(timeout)

    @property
    def cached_info(self) -> ConsumerInfo:
        """The last info of the consumer from the server. Does not block."""
        return self._bound.info

    @property
    def created_consumer(self) -> bool:
        """Whether this subscription made the consumer; false when it was there already."""
        return self._bound.created

    @property
    def pending_messages(self) -> int:
        """Messages (and statuses) received and not yet taken."""
        return self._mailbox.pending_messages + len(self._early)

    @property
    def delivered(self) -> int:
        """Messages handed out so far."""
        return self._deliveries.taken

    def __enter__(self) -> PushSubscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if not self._port.closed:
            unsubscribe_at_exit(self.unsubscribe, kind)
