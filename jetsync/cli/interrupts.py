"""Ctrl-C and SIGTERM, so that a command can be stopped at any moment and still tidies up.

Python turns SIGINT into ``KeyboardInterrupt`` wherever the main thread happens to be. That is what
a command wants, except in two places: while a child process is being started and its handle is not
stored yet, and while processes are being stopped. ``deferred()`` moves the interrupt behind them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

__all__ = [
    "SIGNALS",
    "Terminated",
    "deferred",
    "exit_code",
    "raise_for",
    "restore_interrupts",
    "terminable",
]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. Handled exactly like Ctrl-C, save for the exit code."""


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code that the shell's custom gives an interrupt: 128 + signal number."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def raise_for(signum: int, _frame: FrameType | None = None) -> NoReturn:
    """Raise what a signal means: Terminated, or KeyboardInterrupt."""
    raise Terminated if signum == signal.SIGTERM else KeyboardInterrupt


def restore_interrupts() -> None:
    """Make both signals raise again, after a library has put its own handler in place."""
    if threading.current_thread() is threading.main_thread():
        for signum in SIGNALS:
            signal.signal(signum, raise_for)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does. Outside the main thread it changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    restore_interrupts()
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Run the block to its end; an interrupt that arrives meanwhile is raised after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {
        signum: signal.signal(signum, lambda number, _frame: arrived.append(number))
        for signum in SIGNALS
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
    if arrived:
        raise_for(arrived[0])
