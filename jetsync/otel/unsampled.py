"""The headers of messages whose trace begins here and is not sampled."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ClassVar

from jetsync.observe import LeftOut, Operation

__all__ = ["Unsampled"]

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

    def __init__(self, measure: Callable[[Operation], object] | None) -> None:
        self.measure = measure

    @property
    def headers(self) -> dict[str, str]:  # type: ignore[override]
        """A ``traceparent`` with ids of its own, that is new each time."""
        try:
            return {"traceparent": _Stock.ready.pop()}  # one thread gets it, also without the GIL
        except IndexError:
            return {"traceparent": _made(_Stock.ready)}


def _made(ready: list[str]) -> str:
    """Put values of ``traceparent`` into a list; return one more. A list of the parent, which a
    fork in a signal handler has left here, is out of use."""
    ids = os.urandom(_IDS * _AT_ONCE).hex()
    made = [f"00-{ids[at : at + 32]}-{ids[at + 32 : at + 48]}-00" for at in range(0, len(ids), 48)]
    first = made.pop()
    ready.extend(made)
    return first


def _after_fork_in_child() -> None:
    _Stock.ready = []  # the parent sends the others


os.register_at_fork(after_in_child=_after_fork_in_child)
