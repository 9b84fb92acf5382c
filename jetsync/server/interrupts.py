"""Ctrl-C at a moment when it would lose a process or leave half a folder."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interrupts_afterwards"]


@contextmanager
def interrupts_afterwards() -> Iterator[None]:
    """Run a short block to its end; what SIGINT or SIGTERM raise is raised right after it.

    Python runs signal handlers in the main thread only, so elsewhere there is nothing to do. A
    blocked signal mask would not help: the child inherits it, and other threads take the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    arrived: list[tuple[int, FrameType | None]] = []
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, lambda *what: arrived.append(what))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
    for late, frame in arrived:
        handler = handlers[signal.Signals(late)]
        if callable(handler):
            handler(late, frame)
