"""Window: how much a stream of messages may have in its buffer and on its way. No I/O, no clock."""

from typing import Protocol

HUGE_BATCH: int
DEFAULT_MESSAGES: int
LARGEST_WINDOW: int
LARGEST_BUFFER: int

class _Limits(Protocol):
    @property
    def max_messages(self) -> int: ...
    @property
    def threshold_messages(self) -> int: ...
    @property
    def max_bytes(self) -> int | None: ...
    @property
    def threshold_bytes(self) -> int: ...
    @property
    def grows(self) -> bool: ...

class Window:
    """The bounds of one stream of messages. For one thread at a time."""

    max_messages: int
    threshold_messages: int
    max_bytes: int | None
    may_grow: bool
    is_whole: bool
    def __init__(self, limits: _Limits, most: int = 0) -> None: ...
    def plan(
        self,
        *,
        waiting: int,
        buffered: int,
        waiting_bytes: int,
        buffered_bytes: int,
        left: int | None,
    ) -> tuple[int, int]: ...
    def bytes_for(self, count: int, have_bytes: int) -> int | None: ...
    def took(self, count: int, seconds: float) -> None: ...
    def starved(self, round_trip: float, each: int) -> None: ...
    def slowed(self, count: int, seconds: float) -> None: ...
    def shrink(self) -> bool: ...
