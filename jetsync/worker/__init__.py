"""jetsync.worker - work that is never lost: handlers in threads and processes.

Room:      L6. May import: prometheus, jetstream, hallway.
Threads:   worker-take, -handle, -clock, -http, -drain; with processes worker-parent and -watch.
Touch me:  to change how messages reach a handler, processes, signals, health.
Not here:  what an exception means for a message (jetstream/settle/); the command (cli/worker.py).
"""

from jetsync.jetstream.settle import NEVER, Backoff, Reject, Retry
from jetsync.worker.options import WorkSource, task
from jetsync.worker.replay import replay
from jetsync.worker.report import Outcome, WorkerHealth, WorkerReport, WorkerStats
from jetsync.worker.running import run
from jetsync.worker.worker import Worker

__all__ = [
    "NEVER",
    "Backoff",
    "Outcome",
    "Reject",
    "Retry",
    "WorkSource",
    "Worker",
    "WorkerHealth",
    "WorkerReport",
    "WorkerStats",
    "replay",
    "run",
    "task",
]
