"""Callbacks of users: which are refused, and how they are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from jetsync.errors import ConfigError

__all__ = ["check_callback", "run_callbacks"]


def check_callback(callback: object) -> None:
    """Raise ConfigError for a callback that is not callable, or is a coroutine function."""
    if not callable(callback):
        raise ConfigError(f"callback must be a function, not {type(callback).__name__}")
    if inspect.iscoroutinefunction(callback):
        raise ConfigError(
            "callback must be an ordinary function: there is no event loop here, and it runs on a "
            "thread of its own, where it may block"
        )


def run_callbacks(
    items: Iterable[Any],
    callback: Callable[[Any], Any],
    on_error: Callable[[BaseException, Any], Any],
) -> None:
    """Call the callback with every item, in a loop on the calling thread.

    An exception of the callback goes to ``on_error`` with the item, the SystemExit of
    ``sys.exit()`` too, which ends a program in the main thread only. The next item is still
    delivered.
    """
    for item in items:
        try:
            callback(item)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            on_error(error, item)
