"""Health: examines the jobs of a worker, and tells its problems in sentences."""

from __future__ import annotations

import time
from collections.abc import Sequence

from jetsync._counted import counted
from jetsync.worker.jobs import Jobs
from jetsync.worker.lanes import Job
from jetsync.worker.report import WorkerHealth

__all__ = ["examined"]


def examined(
    jobs: Jobs,
    running: Sequence[Job],
    *,
    threads: int,
    is_running: bool,
    is_connected: bool,
    ending: str | None,
    refused: str | None,
    last_outcome: float | None,
) -> WorkerHealth:
    """Return the health of the worker that holds these jobs, of which some run. ``ending`` tells
    that it ends, has ended or has not begun, ``refused`` why the last dead letter was not stored.
    Does not block."""
    now = time.monotonic()
    problems = []
    if ending is not None:
        problems.append(ending)
    elif not is_connected:
        problems.append("there is no link to a server")
    stuck = sum(job.is_stuck for job in running)
    if stuck:
        problems.append(
            counted(stuck, "handler has", "handlers have") + " run for longer than max_runtime"
        )
    if refused is not None:
        problems.append(f"a dead letter is refused, and its message is kept: {refused}")
    order = jobs.order
    if order is not None:
        if now < order.begins:
            problems.append("it waits for what a worker before it has left unsettled")
        if order.problem is not None:
            problems.append(order.problem)
        is_full = len(jobs.by_seq) >= jobs.limit
        if is_full and not jobs.ready and len(running) < threads:
            problems.append("prefetch is full of messages that wait for their keys: raise prefetch")
    return WorkerHealth(
        alive=is_running,
        ready=is_connected and ending is None and not stuck,
        connected=is_connected,
        in_flight=len(running),
        oldest_seconds=max((now - job.begun for job in running), default=0.0),
        last_outcome=last_outcome,
        problems=problems,
    )
