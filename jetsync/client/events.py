"""Events of a connection: given to the log and to the user's handlers, on a thread of their own."""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty
from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync._latch import Once
from jetsync._log import Log
from jetsync._native import NativeQueue
from jetsync._threads import start_thread
from jetsync.errors import Error, MissedHeartbeatError, PermissionsError, SlowConsumerError

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Event", "EventDispatcher", "Handler", "kind_of"]

logger: Log = Log("jetsync.connection")

_KINDS = (
    (SlowConsumerError, "slow_consumer"),
    (PermissionsError, "permission"),
    (MissedHeartbeatError, "missed_heartbeat"),
)
_ERRORS = frozenset(("error", "callback_error", *(kind for _, kind in _KINDS)))
"""The kinds that go to ``on_error``."""
_LEVELS = {
    "reconnecting": logging.DEBUG,  # one for each attempt of an outage
    "disconnected": logging.WARNING,
    "callback_error": logging.ERROR,
    "stuck": logging.ERROR,
    "dead_letter_failed": logging.ERROR,
}
_MOST_ERRORS = 1000
_MOST = 2 * _MOST_ERRORS
_TRACEBACK_SECONDS = 1.0
_MOST_PLACES = 256
_WITH_LOCALS = 16
"""How many waiting errors keep the local variables of their tracebacks, which hold messages."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a connection outside of any call.

    ``kind`` is one of ``connected`` (the first link), ``disconnected``, ``reconnecting`` (an
    attempt to come back begins), ``reconnected``, ``closed``, ``discovered_servers``,
    ``lame_duck``; of errors ``slow_consumer``, ``permission``, ``missed_heartbeat``,
    ``callback_error`` (a callback raised) or ``error``, all of which go to ``on_error``; and of
    workers ``stuck`` and ``dead_letter_failed``. ``error`` is the reason when there is one,
    ``server`` the address concerned; ``subject``, ``stream`` and ``consumer`` are those of the
    message or subscription. A ``reconnecting`` event has ``attempt``, counted from 1 since the link
    was lost, and ``delay``, the seconds before that attempt. ``time`` is when it happened, in
    seconds on the wall clock. ``seq`` is the stream sequence of the message of a callback, and
    ``duration`` of ``connected`` and ``reconnected`` the round trip to the server in seconds.
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
    seq: int | None = None
    duration: float | None = None


Handler = Callable[[Event], object]


class EventDispatcher:
    """Logs every event and calls its handler, in order, outside of the threads that receive.

    With handlers this runs on a thread of its own, which starts with the first event, else on the
    timer's thread. So handlers of the user and of ``logging`` may use the connection, ``close()``
    included. An exception of a handler is logged; the next handler is called.

    At most 1,000 errors wait: further ones are dropped, and the handler for errors gets an event
    with their number.
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
        self._tracebacks = Tracebacks()

    def post(self, event: Event) -> None:
        """Queue an event for the log and its handler. Never blocks, never raises."""
        heard = self._handler(event) is not None or self._every is not None
        if self._closed or not (heard or logger.is_enabled_for(_level(event))):
            return
        waiting = self._queue.qsize()
        if waiting >= (_MOST_ERRORS if event.kind in _ERRORS else _MOST):
            self._dropped += 1
            return
        if waiting > _WITH_LOCALS and event.error is not None:
            _forget_locals(event.error)
        self._queue.put(event)
        if not self._has_handlers:
            self._later(self._work)
        elif self._starts.first():
            # The timer starts it: this may be a signal handler that interrupted another start.
            self._later(self._start)

    @property
    def _has_handlers(self) -> bool:
        return bool(self._handlers) or self._every is not None

    def _start(self) -> None:
        if self._thread is None:
            try:
                self._thread = start_thread("events", self._run, self._name)
            except RuntimeError:  # the interpreter is ending and starts no more threads
                self._work()

    def _run(self) -> None:
        last: Event | None = None
        while (event := self._queue.get()) is not None:
            last = event
            self._tell(event)
        if last is not None:
            self._tell_dropped(last)

    def _work(self) -> None:
        """Log and handle the waiting events on the calling thread."""
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
            lost = counted(count, "event was", "events were")
            error = Error(f"{lost} dropped: the handlers take longer than they may")
            self._deliver(Event("error", event.connection, error))

    def _handler(self, event: Event) -> Handler | None:
        return self._handlers.get("error" if event.kind in _ERRORS else event.kind)

    def _deliver(self, event: Event) -> None:
        self._call(event, self._log)
        self._call(event, self._handler(event))
        self._call(event, self._every)

    def _log(self, event: Event) -> None:
        level = _level(event)
        if not logger.is_enabled_for(level):
            return
        # The log is the only place that shows a traceback of user code on this thread.
        about, more = event.error if _by_user(event) else None, ""
        if about is not None:
            shown, missed = self._tracebacks.show(about)
            if not shown:
                return
            more = f" (and {counted(missed, 'time')} before)" if missed else ""
        logger.log(
            level,
            "%s",
            _text(event) + more,
            error=about,
            extra=_extra(event, self._name),
        )

    def _call(self, event: Event, handler: Handler | None) -> None:
        try:
            if handler is not None:
                handler(event)
        except BaseException:  # noqa: BLE001 - of a handler: nothing may end this thread
            try:
                extra = _extra(event, self._name)
                logger.exception("the handler for %s raised", event.kind, extra=extra)
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
        if self._thread is not None:
            self._queue.put(None)
        self.join(timeout)

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, unless this is it. Blocks up to ``timeout`` seconds."""
        if self._thread is not None:
            self._thread.join(timeout)


class Tracebacks:
    """At most one traceback a second for each place that raises; the others are counted."""

    def __init__(self) -> None:
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}

    def show(self, error: BaseException) -> tuple[bool, int]:
        """Return whether to show it, and how many of its place were not shown before."""
        frames = list(traceback.walk_tb(error.__traceback__))
        frame, line = frames[-1] if frames else (None, 0)
        place = (type(error), frame and frame.f_code, line)
        now = time.monotonic()
        last, missed = self._seen.get(place, (-math.inf, 0))
        if now - last < _TRACEBACK_SECONDS:
            self._seen[place] = (last, missed + 1)
            return False, 0
        if len(self._seen) >= _MOST_PLACES:
            self._seen.clear()
        self._seen[place] = (now, 0)
        return True, missed


def kind_of(error: BaseException) -> str:
    """Return the kind of event that an error is."""
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), "error")


def _level(event: Event) -> int:
    usual = logging.WARNING if event.kind in _ERRORS else logging.INFO
    return _LEVELS.get(event.kind, usual)


def _text(event: Event) -> str:
    """Return the text of an event for the log."""
    parts = [event.kind]
    if event.server:
        parts.append(event.server)
    if event.kind == "callback_error":
        where = [f"subject {event.subject!r}"] if event.subject else []
        if event.consumer:
            where.append(f"consumer {event.consumer!r} of stream {event.stream!r}")
        parts.append(f"({', '.join(where)})" if where else "")
    if event.kind in ("connected", "reconnected"):
        info = event.connection.server_info
        if info is not None:
            name = event.connection.options.name
            trip = "" if event.duration is None else f", round trip {event.duration * 1000:.3g} ms"
            parts.append(f"({f'as {name!r}, ' if name else ''}nats-server {info.version}{trip})")
    detail = f": {type(event.error).__name__}: {event.error}" if event.error else ""
    return " ".join(part for part in parts if part) + detail


def _extra(event: Event, label: str) -> dict[str, object]:
    """The fields of a log record that programs read; what is not known is left out."""
    found: dict[str, object] = {
        "nats_event": event.kind,
        "nats_connection": event.connection.options.name or label,
        "nats_server": event.server,
        "nats_subject": event.subject or getattr(event.error, "subject", None),
        "nats_stream": event.stream,
        "nats_consumer": event.consumer,
        "nats_seq": event.seq,
        "nats_duration": event.duration,
        "nats_err_code": getattr(event.error, "err_code", None),
    }
    return {key: value for key, value in found.items() if value is not None}


def _by_user(event: Event) -> bool:
    error = event.error
    if error is None or error.__traceback__ is None:
        return False
    return event.kind == "callback_error" or not isinstance(error, Error)


def _forget_locals(error: BaseException) -> None:
    """Keep the lines of a traceback, not the messages in the variables of its frames."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if link.__traceback__ is not None:
            traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
