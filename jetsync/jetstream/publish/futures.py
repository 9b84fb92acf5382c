"""publish_async: many publishes under way, each with a future."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync._core.futures import (
    AsyncWindow,
    PubAckFuture,
    has_callbacks,
    settle_waiter,
)
from jetsync._core.ids import next_nuid
from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync._futures import DoneCallbacks
from jetsync._locks import rlock
from jetsync._log import Log
from jetsync.errors import (
    ConnectionClosedError,
    Error,
    TimeoutError,
    TooManyPendingError,
)
from jetsync.jetstream.api import API
from jetsync.jetstream.publish.outcome import PERSISTENCE
from jetsync.jetstream.publish.puback import ACKS, PubAck
from jetsync.jetstream.publish.window_keeper import WindowKeeper, pending_bounds

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["AsyncPublisher", "PubAckFuture"]

logger: Log = Log("jetsync.publish")

_CORE_PUBLISHES = 4096
_CHECK_EVERY = 0.05  # at deadlines, while anything is open
_IDLE_ROUNDS = 10
_IDLE_WAIT = 5.0


class AsyncPublisher(WindowKeeper[AsyncWindow]):
    """The asynchronous publishes of one JetStream object: a window and the thread that settles it.

    A second thread, for callbacks, starts with the first one.
    """

    operation = "publish_async"

    def __init__(self, port: Port, api: API, max_pending: int | None, auto_ids: bool) -> None:
        first, most = pending_bounds(max_pending)
        super().__init__(
            port,
            api,
            lambda mailbox, prefix: AsyncWindow(
                port.outbound,
                mailbox,
                prefix,
                f"{next_nuid()}.".encode(),
                b"",
                first,
                only_linked=True,
                # Core publishes among the messages do not hold up the others at once, nor do they
                # fail at once where the messages have to be sent again.
                ring=most + max(most, _CORE_PUBLISHES),
                most=most,
                key=os.urandom(16),
                domain=(api.domain or "").encode(),
            ),
        )
        self.window.auto_ids = auto_ids
        self.window.timeout = api.timeout
        self.window.bind(self, ACKS)
        self._room = threading.Condition(rlock("jetstream/publish/futures.py _room"))
        self._waiting = 0
        self._retired = False
        self._ended_by: Error | None = None
        self._settled: deque[PubAckFuture] = deque()  # with waiters or callbacks
        self._callbacks = DoneCallbacks("published", port.start_thread, port.future_failed)
        port.outbound.enter_window(self.reply_prefix, self.window)
        port.start_thread("publish", self._run)
        port.attach(self, sends=True)

    # -- for the publishing threads --------------------------------------------------------------

    def publish(
        self,
        subject: str,
        data: bytes,
        block: bytes,
        auto_id: bool,
        seconds: float,
        expected: bytes | None = None,
    ) -> PubAckFuture:
        """Send one message, as soon as there is room for it."""
        window = self.window
        deadline = time.monotonic() + seconds
        while (future := window.publish(subject, data, block, auto_id, seconds, expected)) is None:
            self._wait_for(lambda: not window.crowded, deadline, self._crowded)
            if window.ended:  # the end of the window woke this thread
                raise self._why_ended()
            seconds = deadline - time.monotonic()
        if window.idle or window.ended:
            self.wake()
        return future

    def wake(self) -> None:
        """After a publish: make sure that the keeper's thread runs and settles it."""
        if self.window.idle:
            self.window.idle = False
            self.link_changed()
        if self.window.ended:
            self.give_up_all(self._why_ended())
            self._deliver()

    def wait(self, seconds: float) -> None:
        """Wait until everything published before is settled."""
        end = self.window.added
        self._wait_for(lambda: self.window.oldest >= end, time.monotonic() + seconds, self._late)

    def _crowded(self) -> Error:
        return TooManyPendingError(
            counted(self.window.capacity_now, "message is", "messages are")
            + " unconfirmed already and none was settled in time; this one was not sent",
            operation="publish_async",
        )

    def _late(self) -> Error:
        return TimeoutError(
            counted(
                self.window.open_count,
                "message was not settled in time; it still will be",
                "messages were not settled in time; they still will be",
            ),
            operation="publish_async_wait",
        )

    def _wait_for(
        self, condition: Callable[[], bool], deadline: float, error: Callable[[], Error]
    ) -> None:
        self.window.flush()
        with self._room:
            self._waiting += 1
            try:
                while not condition():
                    self.check_process()
                    if self.window.ended:
                        raise self._why_ended()
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise error()
                    self._room.wait(min(left, 1.0))
            finally:
                self._waiting -= 1

    @property
    def pending(self) -> int:
        """How many messages are not settled."""
        return self.window.open_count

    def check_process(self) -> None:
        """Refuse to wait in a forked child, where no thread settles futures."""
        if self._port.forked:
            self._port.check()

    def _why_ended(self) -> Error:
        no_inbox = ConnectionClosedError("the inbox for confirmations has ended")
        return self._port.refusal() or self._ended_by or no_inbox

    def drain(self, deadline: Deadline) -> None:
        """Wait until everything is settled, or the time is over: for a connection that drains."""
        with contextlib.suppress(Error):
            self.wait(deadline.within(3600.0))

    def retire(self) -> None:
        """End the thread as soon as everything is settled. Takes no lock: called by finalizers."""
        self._retired = True
        self.link_changed()

    # -- the thread that settles -----------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._settle():
                time.sleep(_CHECK_EVERY)
        except Error as error:
            logger.warning("asynchronous publishing ended: %s", error)
            self._ended_by = error
        finally:
            self.window.ended = True
            if not self._port.forked:
                self.give_up_all(self._why_ended())
                self._deliver()
                self._callbacks.end()
                with contextlib.suppress(Error):
                    self.give_up_inbox()
                if not self._port.closed:  # else `close` may be about to join this thread
                    self._port.detach(self)

    def _settle(self) -> bool:
        """Settle until the end; False when memory was short, which loses nothing of the window."""
        try:
            self._settle_until_end()
        except MemoryError:
            return False
        return True

    def _settle_until_end(self) -> None:
        quiet = 0
        check_at = 0.0
        while not self._port.closed:
            if self.window.open_count or self._waiting:
                quiet = 0
                self.collect(min(_CHECK_EVERY, self.recovers_in))
            elif self._retired:
                return
            else:
                quiet += 1
                if quiet == _IDLE_ROUNDS:
                    self.window.trim()
                self.window.idle = quiet > _IDLE_ROUNDS
                # A publisher that saw `idle` wakes this thread; the check here sees any other one.
                self.collect(_IDLE_WAIT if self.window.idle and not self.window.open_count else 0.2)
            self.window.flush()
            self.recover()
            now = time.monotonic()
            if now >= check_at:
                check_at = now + _CHECK_EVERY
                for number in self.window.overdue():
                    self.give_up(number)
            self._deliver()

    def confirmed(self, number: int, ack: PubAck, text: bytes) -> None:
        self.window.confirm_text(number, text, ack.seq, ack.duplicate)

    def failed(self, number: int, error: Exception) -> None:
        if self.window.fail(number, error):
            self.counts.failed(error)

    def expects(self, number: int, stream: str) -> bool:
        return self.window.expects(number, stream)

    def may_ask_for(self) -> float:
        left = self.window.next_deadline()
        within = PERSISTENCE.ask_within
        return max(PERSISTENCE.slack, within if left is None else min(within, left))

    def _deliver(self) -> None:
        """Wake the waiters and callbacks of the settled futures."""
        if self._waiting:
            with self._room:
                self._room.notify_all()
        self._settled.extend(self.window.take_settled())
        while self._settled:
            future = self._settled[0]
            settle_waiter(future)
            if has_callbacks(future):
                self._callbacks.put(future)
            self._settled.popleft()  # last: after an exception above these are told again
