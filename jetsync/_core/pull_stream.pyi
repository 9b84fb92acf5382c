"""PullLoop: the loop of an endless stream of pulled messages; a subclass handles exceptional
events."""

from collections.abc import Callable
from typing import Any

from jetsync._core.prefetch import PrefetchBuffer
from jetsync._core.pull_window import Window
from jetsync._deadline import Deadline

# Outcomes of a turn of ``PullLoop._deliver``:
SETTLED: int  # as RESTS, and the next check is still due when `_next_check` said last
MORE: int  # it was a full turn, and there may be more
RESTS: int  # all that came was given, and nothing has to be checked before more comes
CHECK: int  # nothing more is there; it has to be checked why

class PullLoop(PrefetchBuffer):
    """Takes messages from an inbox into the prefetch buffer and sends the next pull in time."""

    # Rooms that set these declare them with their own types.
    _port: Any
    _source: Any
    _window: Window
    _inbox: Any
    _error: Exception | None
    _stopped: bool
    _draining: bool
    _is_open: bool
    _is_settled: bool
    _came: bool
    _is_interrupted: bool
    _expires: float
    _heartbeat: float
    def __init__(
        self,
        port: object,
        source: object,
        window: Window,
        *,
        expires: float,
        heartbeat: float,
        group: dict[str, object],
        stop_after: int | None,
    ) -> None: ...
    def _in_turn(self, step: Any, argument: Any) -> Any: ...
    def _take(self, deadline: Deadline) -> Any: ...
    def _deliver(
        self,
        callback: Callable[[Any], Any],
        report: Callable[[BaseException, Any], Any],
        most: int,
    ) -> int: ...
    def _next_check(self) -> tuple[float, float, float]: ...
    def _batch_inside(self, wanted: tuple[int, Deadline]) -> Any: ...
    def _load(self, limit: int, deadline: Deadline) -> None: ...
    def _refill(self) -> None: ...

    # The subclass implements:
    def _open(self, deadline: Deadline) -> Any: ...
    def _is_over(self) -> bool: ...
    def _empty_batch(self) -> Any: ...
    def _on_end(self, inbox: Any, ended: Any) -> None: ...
    def _check(self, inbox: Any) -> None: ...
    def stop(self) -> None: ...
