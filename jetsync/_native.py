"""Threads, locks and sockets of the operating system, also where gevent has replaced them.

jetsync's threads are native ones: its loops in C block outside Python, which would stop every
greenlet at once. A lock, queue or socket of gevent's would need an event loop in each of them.
"""

from __future__ import annotations

import sys
from _queue import SimpleQueue as NativeQueue
from importlib import import_module
from typing import Any

from jetsync.errors import ConfigError

__all__ = ["NativeQueue", "original", "refuse_green_threads"]


def refuse_green_threads() -> None:
    """Raise ConfigError where eventlet has replaced the threads of the process.

    Its patches leave no native lock and thread to use, and a wait in C stops every green thread.
    """
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        raise ConfigError(
            "eventlet has replaced the threads of this process, and jetsync waits in C, which "
            "would stop all green threads: use gevent or native threads, or connect in a process "
            "without eventlet.monkey_patch()"
        )


def original(module: str, name: str) -> Any:
    """Return a function or class of the standard library as it was before gevent's patches."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None:
        return getattr(import_module(module), name)
    return monkey.get_original(module, name)
