"""ConsumeContext: a callback called with each message, on threads of the dispatcher."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._core.mailbox import Mailbox
from jetsync._core.pull_stream import CHECK, MORE, SETTLED
from jetsync._deadline import Deadline, Seconds
from jetsync._handles import Handle
from jetsync.client.delivery import Delivery
from jetsync.client.port import Member
from jetsync.errors import Error, ForkedError, TimeoutError
from jetsync.jetstream.message import JetStreamMsg, origin
from jetsync.jetstream.pull.alarm import Alarm
from jetsync.jetstream.pull.stream import Steps

if TYPE_CHECKING:
    from jetsync.client.port import Port
    from jetsync.jetstream.pull.stream import PullStream

__all__ = ["ConsumeContext"]

_TURN = 64
"""Messages that go to the callback before the dispatcher turns to other mailboxes."""

_NO_THREAD_WAIT = 1.0
"""Seconds before recovery is tried again for which the system had no thread."""


class _Running(Member):
    """Lets consuming end with its connection."""

    def __init__(self, context: ConsumeContext, stream: PullStream) -> None:
        self._context = context
        self._stream = stream

    def link_changed(self) -> None:
        if self._context._port.draining:
            self._stream.drain()  # send no more pulls
        self._context._wake()

    def drain(self, deadline: Deadline) -> None:
        self._context.drain(deadline.remaining())

    def close(self) -> None:
        self._stream.stop()

    def join(self, timeout: float | None) -> None:
        # The callbacks that share the caller's thread end after the one that it is in.
        if not self._context._port.is_dispatching:
            self._context._done.wait(timeout)


class ConsumeContext(Handle):
    """Messages of a consumer given to a callback. Made by ``Consumer.consume``.

    One by one and in order, on a thread of its own as long as the connection has no more than
    ``dispatch_threads`` callbacks (an option of ``connect``); beyond that they share so many.
    Draining the connection drains it too, closing the connection stops it. Thread-safe. As a
    context manager it drains on success and stops on an exception.
    """

    def __init__(
        self, port: Port, stream: PullStream, callback: Callable[[JetStreamMsg], Any]
    ) -> None:
        self._port = port
        self._stream = stream
        self._done = threading.Event()
        self._callback = callback
        self.error: Exception | None = None
        """Why consuming ended by itself, or None."""
        # While the stream has no inbox, this one is waited on.
        self._waits_on = self._mailbox = Mailbox()
        self._mailbox.wake()
        self._steps = Steps(stream, self._wake)
        self._alarm = Alarm(port, self._mailbox)
        self._is_recovering = False
        self._failure: BaseException | None = None
        self._member = _Running(self, stream)
        port.attach(self._member)
        self._delivery: Delivery | None = None
        try:
            self._delivery = Delivery(port, self._mailbox, self._on_end, step=self._step)
        except BaseException:
            stream.stop()
            port.detach(self._member)
            raise

    # -- on a thread of the dispatcher -------------------------------------------------------------

    def _step(self) -> Mailbox | None:
        """Call the callback with what came, without waiting for more: see ``Task``."""
        steps = self._steps
        if self._waits_on is self._mailbox:
            self._mailbox.get(0)
            if self._is_recovering:
                return self._mailbox
        found = steps.deliver(self._callback, self._callback_failed, _TURN)
        if found == SETTLED:
            return self._waits_on
        if found == CHECK and steps.is_over():
            return None
        inbox = steps.current()
        self._waits_on = mailbox = self._mailbox if inbox is None else inbox.mailbox
        if found == MORE:
            mailbox.wake()  # there is more, maybe in the stream's own buffer
        elif inbox is None:
            self._recover()
        else:
            self._alarm.set(mailbox, *steps.next_check())
        return mailbox

    def _recover(self) -> None:
        """Have the stream make its next inbox, where waiting for the server delays no callback."""
        if self._failure is not None:
            raise self._failure
        at = self._steps.recovers_at()
        if at is None:
            return  # a link that comes wakes this
        if at > time.monotonic():
            self._alarm.set(self._mailbox, at)
            return
        self._is_recovering = True
        try:
            self._port.recover(self._steps.recover, self._recovered)
        except (RuntimeError, MemoryError) as error:
            # The system has no thread, or no memory, for it just now.
            self._is_recovering = False
            self._steps.warn(Error(f"reading goes on in {_NO_THREAD_WAIT:g} s: {error!r}"))
            self._alarm.set(self._mailbox, time.monotonic() + _NO_THREAD_WAIT)

    def _recovered(self, error: BaseException | None) -> None:
        self._failure = error
        self._is_recovering = False
        self._mailbox.wake()

    def _on_end(self, error: BaseException | None) -> None:
        try:
            if error is not None:
                self.error = error if isinstance(error, Exception) else None
                if not self._port.closed:
                    self._port.report(error)
        finally:
            self._alarm.cancel()
            self._stream.stop()
            self._port.detach(self._member)
            self._done.set()

    def _callback_failed(self, error: BaseException, msg: JetStreamMsg) -> None:
        stream, consumer = origin(msg)
        self._port.callback_failed(error, msg, stream=stream, consumer=consumer)

    # -- any thread --------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Have a thread take a step: the link came or went, or the stream is to end."""
        if not self._port.forked:  # there a thread that is gone may hold its lock
            self._mailbox.wake()

    @property
    def _is_callback(self) -> bool:
        """Whether the caller is the callback, or was called by it."""
        return self._delivery is not None and self._delivery.on_this_thread

    def stop(self) -> None:
        """End after the present message; the rest is handed back. Does not wait."""
        self._stream.stop()

    def drain(self, timeout: Seconds | None = None) -> None:
        """Send no more pulls and wait until the callback has processed the buffered messages.

        Blocks up to ``timeout`` seconds (default: the connection's); raises TimeoutError then, and
        ForkedError in a forked child. Also when a callback drains another context while callbacks
        occupy all ``dispatch_threads``: the other one ends when a thread is free. In its own
        callback it does not wait.
        """
        self._stream.drain()
        if not self._is_callback and not self.wait(self._port.seconds(timeout)):
            raise TimeoutError("the callback did not finish in time", operation="drain")

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until consuming has ended; returns whether it has.

        Blocks up to ``timeout`` seconds (None: no limit). Raises ForkedError in a forked child,
        where the threads that consume do not exist.
        """
        if isinstance(refusal := self._port.refusal(), ForkedError):
            raise refusal
        return self._done.wait(Deadline(timeout).remaining())

    @property
    def is_active(self) -> bool:
        """Whether messages are still being delivered."""
        return not self._done.is_set()

    def __repr__(self) -> str:
        return f"ConsumeContext({self._stream!r}, {'active' if self.is_active else 'ended'})"

    def __enter__(self) -> ConsumeContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None:
            self.drain()
        else:
            self.stop()
