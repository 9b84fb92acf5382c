"""The events of the connection on stderr, beside what the command itself says."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

__all__ = ["EventLog"]

_RAISED = ("permission", "error")
"""The events that calls mostly raise too."""


class EventLog(logging.StreamHandler):  # type: ignore[type-arg]  # generic in type stubs alone
    """Prints records. What a call may be about to raise waits a moment: when it ends the command,
    its sentence is all that is printed, and the same text comes once in that time.

    ``soon`` runs a function a moment later. Thread-safe as handlers are.
    """

    def __init__(self, soon: Callable[[Callable[[], object]], object]) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("jetsync: %(message)s"))
        self._soon = soon
        self._held: dict[str, logging.LogRecord] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, or keep it for a moment."""
        if getattr(record, "nats_event", None) not in _RAISED or record.exc_info:
            super().emit(record)
            return
        if not self._held:
            self._soon(self.tell)
        self._held.setdefault(record.getMessage(), record)

    def tell(self) -> None:
        """Print what is kept."""
        self.acquire()
        try:
            held, self._held = self._held, {}
            for record in held.values():
                super().emit(record)
        finally:
            self.release()

    def drop(self) -> None:
        """Forget what is kept: the command says itself what it failed with."""
        self._held = {}
