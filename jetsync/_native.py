"""Threads, locks and sockets of the operating system, also where gevent has replaced them.

jetsync's threads are native ones: its loops in C block outside Python, which would stop every
greenlet at once. A lock, queue or socket of gevent's would need an event loop in each of them.
"""

from __future__ import annotations

import sys
from _queue import SimpleQueue as NativeQueue
from importlib import import_module
from typing import Any

__all__ = ["NativeQueue", "original"]


def original(module: str, name: str) -> Any:
    """Return a function or class of the standard library as it was before gevent's patches."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None:
        return getattr(import_module(module), name)
    return monkey.get_original(module, name)
