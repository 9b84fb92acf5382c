"""What happened to a connection, told to the user's handlers on a thread of its own."""

from __future__ import annotations

import dataclasses
import logging
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync.client.runner import start_thread

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Event", "EventDispatcher", "Handler"]

logger = logging.getLogger("jetsync")


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened to a connection outside of any call.

    ``kind`` is one of ``error``, ``disconnected``, ``reconnected``, ``closed``,
    ``discovered_servers``, ``lame_duck``; ``error`` the reason when there is one, ``server`` the
    address concerned.
    """

    kind: str
    connection: Connection
    error: Exception | None = None
    server: str | None = None


Handler = Callable[[Event], object]


class EventDispatcher:
    """Logs every event and calls its handler, in order, on one thread that starts when needed.

    No lock is held while a handler runs, so a handler may call anything, ``close()`` included. A
    handler that raises harms nothing: the exception is logged.
    """

    def __init__(self, name: str, handlers: dict[str, Handler | None]) -> None:
        self._name = name
        self._handlers = {kind: handler for kind, handler in handlers.items() if handler}
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def post(self, event: Event) -> None:
        """Log an event and queue it for its handler. Never blocks, never raises."""
        level = logging.WARNING if event.kind in ("error", "disconnected") else logging.INFO
        detail = f": {type(event.error).__name__}: {event.error}" if event.error else ""
        logger.log(level, "%s %s%s", event.kind, event.server or "", detail)
        if event.kind not in self._handlers:
            return
        with self._lock:
            if self._closed:
                return
            if self._thread is None:
                try:
                    self._thread = start_thread(f"events-{self._name}", self._run)
                except RuntimeError:  # the interpreter is ending and starts no threads any more
                    return
        self._queue.put(event)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._handlers[event.kind](event)
            except Exception:
                logger.exception("the handler for %s raised", event.kind)

    def close(self, timeout: float) -> None:
        """Deliver what is queued, then end the thread. Blocks up to ``timeout`` seconds."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            self._queue.put(None)
            if thread is not threading.current_thread():
                thread.join(timeout)
