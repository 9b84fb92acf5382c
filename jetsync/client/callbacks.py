"""The check of callbacks that users give."""

from __future__ import annotations

import inspect

from jetsync.errors import ConfigError

__all__ = ["check_callback"]


def check_callback(callback: object, name: str = "callback") -> None:
    """Raise ConfigError for a callback that is not callable, or is a coroutine function."""
    if not callable(callback):
        raise ConfigError(f"{name} must be a function, not {type(callback).__name__}")
    if inspect.iscoroutinefunction(callback):
        raise ConfigError(
            f"{name} must be an ordinary function: there is no event loop here, and it runs on a "
            "thread of its own, where it may block"
        )
