"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import secrets
import socket

from jetsync.errors import ServerUnavailableError

__all__ = ["HOST", "free_port"]

HOST = "127.0.0.1"

# Below what Linux and macOS hand out by themselves. From those another program's outgoing
# connection could take the port while the server is down, and a client that dials a closed port on
# the same machine can even be connected to itself.
_CANDIDATES = range(20_000, 30_000)
_TRIES = 200


def free_port() -> int:
    """Return a port that is free at this moment. Does not block.

    It is not reserved: the caller must be ready to find it taken, and ask again.
    Raises ``ServerUnavailableError`` when none can be found. Safe from any thread.
    """
    for _ in range(_TRIES):
        port = _CANDIDATES[secrets.randbelow(len(_CANDIDATES))]
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise ServerUnavailableError(
        f"no free TCP port on {HOST} between {_CANDIDATES.start} and {_CANDIDATES.stop}: "
        "end some programs, or give a port."
    )
