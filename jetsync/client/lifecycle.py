"""Closing and draining: the order in which a connection ends."""

from __future__ import annotations

import atexit
import contextlib
import threading
import warnings
import weakref
from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync._latch import Latch, Once
from jetsync.client.pongs import Pong
from jetsync.errors import (
    ConnectionClosedError,
    DisconnectedError,
    DrainingError,
    Error,
    TimeoutError,
)
from jetsync.protocol.states import Status

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Lifecycle", "open_connections"]

CLOSE_LIMIT = 0.9
"""Seconds that close() waits at most, in any state. The rest of the promised second is for what it
does itself."""

FLUSH_LIMIT = 0.4
"""Of these, how long the server may take to confirm what was sent before."""

AFTER_DRAIN = 0.4
"""Seconds that a drain may take to close, on top of its own time."""

EXIT_LIMIT = 0.6
"""Seconds that all the connections together may hold up the end of the interpreter. The rest of the
promised second is for the interpreter's own end, on a busy machine too."""

open_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


class Lifecycle:
    """Ends a connection, once. Thread-safe and callable from any callback."""

    def __init__(self, nc: Connection) -> None:
        self._nc = nc
        self._closing = Once()
        self._draining = Once()
        self._closer = 0  # the thread that closes
        self.drained: bool = False
        self._closed = Latch()
        self._joined = Latch()
        self.ends_at_exit = False
        """Whether the interpreter ends while it is open."""
        self.may_stay_open = False
        """Whether the program need not close it before the interpreter ends."""
        open_connections.add(nc)

    def close(
        self, reason: Exception | None = None, *, flush: bool = True, limit: float = CLOSE_LIMIT
    ) -> None:
        """Send what waits (briefly), wake every waiter, end and join every thread."""
        nc = self._nc
        if not self._closing.first():
            # Another thread closes and joins the callbacks: a callback, or a signal handler that
            # interrupted that thread, would deadlock if it waited here.
            if not _on_own_thread() and self._closer != threading.get_ident():
                self._await_end(Deadline(limit))
            return
        self._closer = threading.get_ident()
        deadline = Deadline(limit)
        try:
            if flush and nc.is_connected:
                with contextlib.suppress(Error):
                    nc.flush(deadline.within(FLUSH_LIMIT))
                    # The PONG lets the timer give back what came late to ended pulls.
                    nc._timer.settle(deadline.within(FLUSH_LIMIT))
                    if nc._outbound.pending_bytes:
                        nc.flush(deadline.within(FLUSH_LIMIT))
        finally:
            self._end(reason, deadline)

    def _end(self, reason: Exception | None, deadline: Deadline) -> None:
        nc = self._nc
        nc._life.close()
        text = f"the connection is closed: {reason}" if reason else "the connection is closed"
        nc._refusal = lambda: ConnectionClosedError(text)
        # Before the link ends, so that a call that waits for room raises ConnectionClosedError and
        # not the error of a lost link.
        nc._outbound.close()
        nc._routes.finish_all(ConnectionClosedError(text) if reason else None)
        members = nc._members.all()
        for member in members:
            member.close()
        nc._requests.fail_all(text, closed=True)
        try:
            # Part of the time: the other threads have to be joined too.
            nc._session.close(deadline.within(CLOSE_LIMIT) * 0.7)
        finally:  # Ctrl-C during the joins must leave no thread running
            nc._timer.close(deadline.within(CLOSE_LIMIT) * 0.7)
            open_connections.discard(nc)
            nc._reports.post("closed", reason)
            self._closed.set()
            try:
                for member in members:
                    member.join(deadline.remaining())
                nc._threads.join(deadline.remaining())
                nc._reports.events.close(deadline.within(CLOSE_LIMIT))
            finally:
                self._joined.set()

    def _await_end(self, deadline: Deadline) -> None:
        """Wait until the thread that closes has joined the others, and then for the end of that one
        itself, which may be a thread of the connection."""
        nc = self._nc
        if self._joined.wait(deadline.remaining()):
            for part in (nc._session, nc._timer, nc._threads, nc._reports.events):
                part.join(deadline.within(CLOSE_LIMIT))

    def give_up(self, reason: Exception | None) -> None:
        """Called by the reader when no server is left: close without waiting for itself."""
        self.close(reason or ConnectionClosedError("the connection was lost"), flush=False)

    def drain(self, timeout: float) -> None:
        """Unsubscribe everything, let what came be consumed, send what waits, close."""
        nc = self._nc
        deadline = Deadline(timeout)
        problem: Error | None = None
        first = self._draining.first()
        if nc.is_closed:
            return
        if not first:
            self._await_other_drain(deadline, timeout)
            return
        try:
            self._consume_and_send(deadline)
        except Error as error:
            problem = error
        finally:
            self.close(flush=False, limit=AFTER_DRAIN)
        if problem is not None:
            raise _cut_short(timeout, problem) from problem

    def _consume_and_send(self, deadline: Deadline) -> None:
        nc = self._nc
        nc._life.drain(Status.DRAINING_SUBS)
        self._await_link(deadline)
        nc._members.link_changed()  # pulls ask for no more messages
        stopped = nc._routes.stop_all()
        # The PONG follows every message sent to this client, and so does the end of the link: after
        # either of them no message is under way.
        with contextlib.suppress(DisconnectedError):
            nc._flush(deadline)
        nc._routes.close_all(stopped)
        for member in nc._members.all():
            member.drain(deadline)
        nc._life.drain(Status.DRAINING_PUBS)
        nc._refusal = lambda: DrainingError("the connection is draining; make a new one")
        self._flush(deadline)
        self.drained = True

    def _flush(self, deadline: Deadline) -> None:
        """Wait for a link, and then until the server has what was published."""
        nc = self._nc
        while True:
            self._await_link(deadline)
            pong = Pong()
            # A link may end right after that look for it: what waits is kept for the next one.
            if nc._session.ping(pong) or nc.is_closed or deadline.expired:
                return pong.check(deadline.remaining())

    def check_not_draining(self) -> None:
        """Refuse new subscriptions of a connection that drains (DrainingError)."""
        if self._nc.status in (Status.DRAINING_SUBS, Status.DRAINING_PUBS):
            raise DrainingError("the connection is draining and takes no new subscriptions")

    def wait_closed(self, seconds: float) -> bool:
        """Wait up to so many seconds for the end of the connection; returns whether it came."""
        return self._closed.wait(seconds)

    def _await_link(self, deadline: Deadline) -> None:
        nc = self._nc
        while not nc.is_connected and not nc.is_closed and not deadline.expired:
            self.wait_closed(deadline.within(0.02))

    def _await_other_drain(self, deadline: Deadline, timeout: float) -> None:
        """Another thread drains: wait for it, and close when this call's time is over first."""
        if _on_own_thread():
            return
        if self._closed.wait(deadline.remaining()):
            self._await_end(Deadline(AFTER_DRAIN))
            return
        self.close(flush=False, limit=AFTER_DRAIN)
        raise _cut_short(timeout, "another thread drains it and is not done")


def _on_own_thread() -> bool:
    return threading.current_thread().name.startswith("jetsync-")


def _cut_short(timeout: float, why: object) -> TimeoutError:
    return TimeoutError(f"draining was cut short after {timeout:g} s: {why}", operation="drain")


@atexit.register
def _close_all() -> None:
    """End every connection that the program left open, before the interpreter goes away.

    Together they get one budget: servers that do not answer are waited for at the same time.
    """
    left = list(open_connections)
    deadline, flushed = Deadline(EXIT_LIMIT), Deadline(FLUSH_LIMIT)
    pongs = []
    for nc in left:
        with contextlib.suppress(Exception):
            if not nc._lifecycle.may_stay_open:
                warnings.warn(f"not closed: {nc!r}", ResourceWarning, stacklevel=2, source=nc)
    for nc in left:
        with contextlib.suppress(Exception):
            pongs.append(Pong())
            nc._session.ping(pongs[-1])
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends this wait, not the closing
        for pong in pongs:
            pong.wait(flushed.remaining())
    for nc in left:
        with contextlib.suppress(Exception, KeyboardInterrupt):
            nc._lifecycle.ends_at_exit = True
            nc._lifecycle.close(flush=False, limit=deadline.within(CLOSE_LIMIT))
