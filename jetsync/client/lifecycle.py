"""Closing and draining live here: the order in which a connection ends."""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync.errors import ConnectionClosedError, DrainingError, Error, TimeoutError
from jetsync.protocol.states import Status

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Lifecycle", "open_connections"]

CLOSE_LIMIT = 1.0
"""Seconds that close() takes at most, in any state."""

open_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


class Lifecycle:
    """Ends a connection, once. Thread-safe and callable from any callback."""

    def __init__(self, nc: Connection) -> None:
        self._nc = nc
        self._lock = threading.Lock()
        self._closing = False
        self._closed = threading.Event()
        open_connections.add(nc)

    def close(self, reason: Exception | None = None, *, flush: bool = True) -> None:
        """Send what waits (briefly), wake every waiter, end and join every thread."""
        nc = self._nc
        with self._lock:
            first, self._closing = not self._closing, True
        if not first:
            # Somebody else is at it; a callback of theirs must not wait for itself.
            if threading.current_thread().name.startswith("jetsync-"):
                return
            self._closed.wait(CLOSE_LIMIT)
            return
        deadline = Deadline(CLOSE_LIMIT)
        try:
            if flush and nc.is_connected:
                with contextlib.suppress(Error):
                    nc.flush(deadline.within(0.4))
        finally:
            self._end(reason, deadline)

    def _end(self, reason: Exception | None, deadline: Deadline) -> None:
        nc = self._nc
        nc._transition(Status.CLOSED)
        text = f"the connection is closed: {reason}" if reason else "the connection is closed"
        nc._refusal = lambda: ConnectionClosedError(text)
        for subscription in nc._subscriptions():
            subscription._mailbox.finish(ConnectionClosedError(text) if reason else None)
        nc._wake_engines()
        nc._requests.fail_all(text, closed=True)
        nc._session.close(deadline.within(CLOSE_LIMIT))
        nc._timer.close(deadline.within(CLOSE_LIMIT))
        me = threading.current_thread()
        for subscription in nc._subscriptions():
            thread = subscription._thread
            if thread is not None and thread is not me:
                thread.join(deadline.remaining())
        nc._post("closed", reason)
        nc._events.close(deadline.within(CLOSE_LIMIT))
        open_connections.discard(nc)
        self._closed.set()

    def give_up(self, reason: Exception | None) -> None:
        """Called by the reader when no server is left: close without waiting for itself."""
        self.close(reason or ConnectionClosedError("the connection was lost"), flush=False)

    def drain(self, timeout: float) -> None:
        """Unsubscribe everything, let what came be consumed, send what waits, close."""
        nc = self._nc
        deadline = Deadline(timeout)
        problem: Error | None = None
        if nc.is_closed:
            return
        nc._transition(Status.DRAINING_SUBS)
        while not nc.is_connected and not nc.is_closed and not deadline.expired:
            nc._pause(deadline.within(0.02))
        try:
            for subscription in nc._subscriptions():
                nc._outbound.unsubscribe(subscription._sid)
            nc._flush(deadline)
            for subscription in nc._subscriptions():
                nc._unsubscribe(subscription._sid)
                if subscription._callback is not None:
                    subscription._wait_consumed(deadline)
            nc._transition(Status.DRAINING_PUBS)
            nc._refusal = lambda: DrainingError("the connection is draining; make a new one")
            nc._flush(deadline)
        except Error as error:
            problem = error
        self.close(flush=False)
        if problem is not None:
            raise TimeoutError(
                f"draining was cut short after {timeout:g} s: {problem}", operation="drain"
            ) from problem


@atexit.register
def _close_all() -> None:
    """End every connection that the program left open, before the interpreter goes away."""
    for nc in list(open_connections):
        with contextlib.suppress(Exception):
            nc.close()
