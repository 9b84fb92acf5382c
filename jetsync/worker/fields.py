"""The options of ``run`` and ``Worker`` for type checkers; ``options.py`` checks them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from jetsync import JetStreamMsg
    from jetsync._deadline import Seconds
    from jetsync.jetstream.settle import Backoff
    from jetsync.jetstream.settle.rules import RetryRule
    from jetsync.worker.report import Outcome

__all__ = ["WorkerFields"]


class WorkerFields(TypedDict, total=False):
    """The same names as ``WorkerOptions``; a test compares them."""

    threads: int
    processes: int
    start_method: Literal["spawn", "forkserver"]
    key: str | Callable[[JetStreamMsg], Hashable] | None
    retry: RetryRule
    dead_letter: str | None
    codec: Any
    ack_sync: bool
    prefetch: int | None
    crash_tries: int
    max_runtime: Seconds | None
    drain_timeout: Seconds
    restart_backoff: Backoff
    setup: Callable[[], Any] | None
    teardown: Callable[[], Any] | None
    on_outcome: Callable[[Outcome], Any] | None
    http: str | None
