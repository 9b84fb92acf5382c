"""jetsync.observe - hooks around operations: publishing, requests, receiving, processing.

    class Slow(jetsync.observe.Hooks):
        def end(self, op):
            if op.duration > 0.1:
                print(op.kind, op.subject, op.duration, op.error)

    nc = jetsync.connect(url, hooks=Slow())

Room:      L5. May import: jetstream, client, hallway.
Threads:   none of its own; hooks are called on the threads of the operations.
Touch me:  to change which calls are operations, and what hooks are told.
Not here:  spans and metrics of OpenTelemetry (otel/).
"""

from __future__ import annotations

from jetsync.client import MOST_NOTED
from jetsync.observe.connection import install, processing, uninstall
from jetsync.observe.hooks import MOST_READ, About, Hooks, LeftOut, Note, Operation

__all__ = [
    "MOST_NOTED",
    "MOST_READ",
    "About",
    "Hooks",
    "LeftOut",
    "Note",
    "Operation",
    "install",
    "processing",
    "uninstall",
]
