"""What the asyncio peers share: calls that are awaited one after another, each with its time.

Loops over messages stay with each peer: its client's own names stand in them, and a look-up of a
name that was given as a parameter would be measured with them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from meter import Job


async def timed_calls(job: Job, call: Callable[[], Awaitable[object]]) -> None:
    """Await the call ``count`` times after a first one, and keep how long each took."""
    durations = []
    now = time.perf_counter
    await call()
    job.start()
    for _ in range(job.count):
        before = now()
        await call()
        durations.append(now() - before)
    job.stop(job.count, job.count * job.size)
    job.latencies(durations)
