"""Events of a connection: given to the log and to the user's handlers, on a thread of their own."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import traceback
from collections.abc import Callable
from queue import Empty
from typing import TYPE_CHECKING

from jetsync._latch import Once
from jetsync._native import NativeQueue
from jetsync._printable import printable
from jetsync._threads import start_thread
from jetsync.errors import Error

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Event", "EventDispatcher", "Handler"]

logger = logging.getLogger("jetsync")

_MOST_ERRORS = 1000
_MOST = 2 * _MOST_ERRORS
_WITH_LOCALS = 16
"""So many waiting errors keep the local variables of their tracebacks, which hold messages."""


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened to a connection outside of any call.

    ``kind`` is one of ``error``, ``connected`` (the first link), ``disconnected``,
    ``reconnecting`` (an attempt to come back begins), ``reconnected``, ``closed``,
    ``discovered_servers``, ``lame_duck``, and of workers ``stuck`` and ``dead_letter_failed`` with
    ``subject``, ``stream`` and ``consumer`` of the message; ``error`` the reason when there is one,
    ``server`` the address concerned. Of ``reconnecting`` there are ``attempt``, counted from 1
    since the link was lost, and ``delay``, the seconds that pass before it. ``time`` is when it
    happened, in seconds on the wall clock.
    """

    kind: str
    connection: Connection
    error: BaseException | None = None
    server: str | None = None
    attempt: int | None = None
    delay: float | None = None
    time: float = dataclasses.field(default_factory=time.time)
    subject: str | None = None
    stream: str | None = None
    consumer: str | None = None


Handler = Callable[[Event], object]


class EventDispatcher:
    """Logs every event and calls its handler, in order, outside of the threads that receive.

    With handlers that is a thread of its own, which starts with the first event; without any it is
    the timer's. So handlers of the user and of ``logging`` may use the connection, ``close()``
    included. An exception of a handler is logged; the next handler is called.

    What waits is bounded: beyond 1,000 errors new ones are counted and dropped, and the handler for
    errors is told how many.
    """

    def __init__(
        self,
        name: str,
        handlers: dict[str, Handler | None],
        every: Handler | None,
        later: Callable[[Callable[[], object]], object],
    ) -> None:
        self._name = name
        self._handlers = {kind: handler for kind, handler in handlers.items() if handler}
        self._every = every
        self._later = later
        self._queue: NativeQueue[Event | None] = NativeQueue()
        self._starts = Once()
        self._thread: threading.Thread | None = None
        self._dropped = 0
        self._closed = False

    def post(self, event: Event) -> None:
        """Queue an event for the log and its handler. Never blocks, never raises."""
        heard = event.kind in self._handlers or self._every is not None
        if self._closed or not (heard or logger.isEnabledFor(_level(event))):
            return
        waiting = self._queue.qsize()
        if waiting >= (_MOST_ERRORS if event.kind == "error" else _MOST):
            self._dropped += 1
            return
        if waiting > _WITH_LOCALS and event.error is not None:
            _forget_locals(event.error)
        self._queue.put(event)
        if not self._has_handlers:
            self._later(self._work)
        elif self._starts.first():
            # Not from here: this may be a signal handler in the middle of another start.
            self._later(self._start)

    @property
    def _has_handlers(self) -> bool:
        return bool(self._handlers) or self._every is not None

    def _start(self) -> None:
        if self._thread is None:
            try:
                self._thread = start_thread("events", self._run, self._name)
            except RuntimeError:  # the interpreter is ending and starts no threads any more
                self._work()

    def _run(self) -> None:
        last: Event | None = None
        while (event := self._queue.get()) is not None:
            last = event
            self._tell(event)
        if last is not None:
            self._tell_dropped(last)

    def _work(self) -> None:
        """Deal with what waits, on the calling thread."""
        while True:
            try:
                event = self._queue.get_nowait()
            except Empty:
                return
            if event is not None:
                self._tell(event)

    def _tell(self, event: Event) -> None:
        self._deliver(event)
        if not self._queue.qsize():
            self._tell_dropped(event)

    def _tell_dropped(self, event: Event) -> None:
        if self._dropped:
            count, self._dropped = self._dropped, 0
            error = Error(f"{count} events were dropped: the handlers take longer than they may")
            self._deliver(Event("error", event.connection, error))

    def _deliver(self, event: Event) -> None:
        detail = f": {type(event.error).__name__}: {event.error}" if event.error else ""
        text = printable(f"{event.kind} {event.server or ''}{detail}")
        # With a traceback where user code raised: else it would be lost with the thread.
        about = event.error if _by_user(event.error) else None
        self._call(event, lambda _: logger.log(_level(event), "%s", text, exc_info=about))
        self._call(event, self._handlers.get(event.kind))
        self._call(event, self._every)

    def _call(self, event: Event, handler: Handler | None) -> None:
        try:
            if handler is not None:
                handler(event)
        except BaseException:  # noqa: BLE001 - of a handler: nothing may end this thread
            try:
                logger.exception("the handler for %s raised", event.kind)
            except BaseException:  # noqa: BLE001, S110 - a handler of the log itself
                pass

    def close(self, timeout: float) -> None:
        """Deliver what is queued, then end the thread. Blocks up to ``timeout`` seconds. The timer
        has ended before."""
        self._closed = True
        if not self._has_handlers:
            self._work()
            return
        if self._queue.qsize():
            self._start()
        thread = self._thread
        if thread is not None:
            self._queue.put(None)
            if thread is not threading.current_thread():
                thread.join(timeout)


def _level(event: Event) -> int:
    if event.kind == "reconnecting":
        return logging.DEBUG  # an outage has many of them
    return logging.WARNING if event.kind in ("error", "disconnected") else logging.INFO


def _by_user(error: BaseException | None) -> bool:
    return error is not None and not isinstance(error, Error) and error.__traceback__ is not None


def _forget_locals(error: BaseException) -> None:
    """Keep the lines of a traceback, not the messages in the variables of its frames."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if link.__traceback__ is not None:
            traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
