"""The only place that starts threads."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["run_callbacks", "start_thread"]

logger = logging.getLogger("jetsync")


def start_thread(name: str, target: Callable[[], Any]) -> threading.Thread:
    """Start a daemon thread that takes no signals, so that Ctrl-C reaches the user's own thread."""

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            target()
        except Exception:
            logger.exception("thread %s ended by an unexpected error", name)

    thread = threading.Thread(target=run, name=f"jetsync-{name}", daemon=True)
    thread.start()
    return thread


def run_callbacks(
    items: Iterable[Any], callback: Callable[[Any], Any], on_error: Callable[[Exception], Any]
) -> None:
    """Give every item to the callback: a callback is a ``for`` loop in a thread, nothing more.

    An exception of the callback goes to ``on_error``; the next item is still delivered.
    """
    for item in items:
        try:
            callback(item)
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            on_error(error)
