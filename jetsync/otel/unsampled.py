"""The headers of messages whose trace begins here and is not sampled."""

from __future__ import annotations

import os
from collections import deque
from typing import ClassVar

from jetsync.client import unsampled_parents
from jetsync.headers import HeaderInput
from jetsync.observe import LeftOut, Note

__all__ = ["Unsampled", "new_headers"]

_AT_ONCE = 64
"""Made one by one, between two waits for a server, they cost several times as much: nothing that
makes them is in a cache of the processor any more."""
_IDS = 24
"""Bytes of the two ids, which are all zeros once in 2**64 times."""


class _Stock:
    """Values of ``traceparent`` that no message has yet."""

    ready: ClassVar[list[str]] = []


class Unsampled(LeftOut):
    """A message that begins a trace which is left out. Thread-safe: all such messages share it."""

    __slots__ = ()

    def __init__(self, notes: deque[Note] | None) -> None:
        super().__init__(None, notes)  # the headers are new each time

    def carry(self, given: HeaderInput | None) -> HeaderInput | None:
        """Return the headers of the caller with a ``traceparent`` of new ids."""
        own = new_headers()
        return LeftOut(own).carry(given) if given else own


def new_headers() -> dict[str, str]:
    """Return the headers of a message that begins a trace which is left out: new ids each time."""
    try:
        return {"traceparent": _Stock.ready.pop()}  # one thread gets it, also without the GIL
    except IndexError:
        return {"traceparent": _made(_Stock.ready)}


def _made(ready: list[str]) -> str:
    """Put values of ``traceparent`` into a list; return one more. A list of the parent, which a
    fork in a signal handler has left here, is out of use."""
    made = unsampled_parents(os.urandom(_IDS * _AT_ONCE))
    first = made.pop()
    ready.extend(made)
    return first


def _after_fork_in_child() -> None:
    _Stock.ready = []  # the parent sends the others


os.register_at_fork(after_in_child=_after_fork_in_child)
