"""Blocking calls where gevent has patched the standard library: other greenlets go on meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["call", "is_patched"]

T = TypeVar("T")


def is_patched() -> bool:
    """Whether this process runs greenlets in the place of threads."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("_thread"))


def call(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Return ``function(*args, **options)``; under gevent a native thread runs it, and only the
    calling greenlet waits. jetsync blocks in C, which would stop all of them."""
    if not is_patched():
        return function(*args, **options)
    from gevent import get_hub  # type: ignore[import-untyped, unused-ignore]

    result: T = get_hub().threadpool.apply(function, args, options)
    return result
