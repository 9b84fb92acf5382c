"""jetsync.server - the real nats-server as a child process, for demos and tests.

Room:      beside the floors. May import: hallway. May not: any other room of jetsync.
Threads:   none of its own; it starts processes and waits for them under a deadline.
Touch me:  to change how nats-server is found, configured, started, disturbed or stopped.
Not here:  speaking NATS (client/), creating streams (jetstream/), the command line (cli/).
"""

from __future__ import annotations

from jetsync.server.binary import find_binary
from jetsync.server.cluster import NatsCluster
from jetsync.server.server import NatsServer

__all__ = ["NatsCluster", "NatsServer", "find_binary"]
