"""jetsync.server - the real nats-server as a context manager, for demos and tests.

Room:      beside the floors. May import: hallway, stdlib. May not: any floor.
Threads:   none of its own; a server is a process of its own.
Touch me:  to change how servers are found, configured, started, stopped and harmed.
Not here:  talking to a server (client/).
"""

from __future__ import annotations

from jetsync.server.cluster import NatsCluster
from jetsync.server.server import NatsServer

__all__ = ["NatsCluster", "NatsServer"]
