"""The headers of messages whose trace begins here and is not sampled."""

from __future__ import annotations

from collections import deque

from jetsync.client import unsampled_parent
from jetsync.headers import HeaderInput
from jetsync.observe import LeftOut, Note

__all__ = ["Unsampled"]


class Unsampled(LeftOut):
    """A message that begins a trace which is left out. Thread-safe: all such messages share it."""

    __slots__ = ()

    def __init__(self, notes: deque[Note] | None) -> None:
        super().__init__(None, notes)  # the headers are new each time

    def carry(self, given: HeaderInput | None) -> HeaderInput | None:
        """Return the headers of the caller with a ``traceparent`` of new ids."""
        own = {"traceparent": unsampled_parent()}
        return LeftOut(own).carry(given) if given else own
