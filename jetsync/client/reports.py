"""Reports: the events of a connection, and its last error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync.client.events import Event, EventDispatcher, kind_of
from jetsync.client.last_error import without_traceback
from jetsync.errors import ConnectionClosedError

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["Reports"]


class Reports:
    """Makes events of what happens to one connection outside of calls, for the log and the handlers
    of its options, and keeps its last error. Thread-safe; nothing here blocks or raises."""

    def __init__(self, nc: Connection) -> None:
        self._nc = nc
        timer, options = nc._timer, nc.options

        def later(function: Callable[[], object]) -> object:
            return timer.call_later(0, function)

        self.events: EventDispatcher = EventDispatcher(
            nc._label,
            {
                "error": options.on_error,
                "disconnected": options.on_disconnected,
                "connected": options.on_connected,
                "reconnecting": options.on_reconnect_attempt,
                "reconnected": options.on_reconnected,
                "closed": options.on_closed,
                "discovered_servers": options.on_discovered_servers,
                "lame_duck": options.on_lame_duck,
            },
            options.on_event,
            later,
        )
        """Refers to no connection but through the events that wait."""
        self.last_error: BaseException | None = None

    def error(self, error: BaseException) -> None:
        """See ``Port.report``."""
        self.post("error", error)

    def future_failed(self, error: BaseException, future: Any) -> None:
        """See ``Port.future_failed``."""
        if future is None:
            self.error(error)
        elif not (self._nc.is_closed and isinstance(error, ConnectionClosedError)):
            self.post("callback_error", error, subject=future._subject)

    def post(
        self,
        kind: str,
        error: BaseException | None = None,
        server: str | None = None,
        **about: Any,
    ) -> None:
        """Give an event to the log and its handlers; ``about`` are other fields of it."""
        if kind == "error" and error is not None:
            kind = kind_of(error)
        if kind in ("connected", "reconnected"):
            self.last_error = None
        elif error is not None and kind not in ("reconnecting", "disconnected", "closed"):
            self.keep(error)
        self.events.post(Event(kind, self._nc, error, server, **about))

    def keep(self, error: BaseException) -> None:
        """Make this the last error, without an event."""
        self.last_error = without_traceback(error)
