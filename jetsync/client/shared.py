"""One connection per process and options, for UDFs and other code that cannot pass one around."""

from __future__ import annotations

import dataclasses
import os
import threading
from typing import Any

from jetsync.client.connect import connect
from jetsync.client.connection import Connection
from jetsync.client.options import ConnectOptions
from jetsync.errors import ConfigError

__all__ = ["shared_connection"]

_lock = threading.Lock()
_connections: dict[tuple[int, ConnectOptions], Connection] = {}


def shared_connection(options: ConnectOptions | str | None = None, **fields: Any) -> Connection:
    """Return this process's connection for these options; make it when there is none or it closed.

    ``options`` is a ConnectOptions or a URL; further keywords override its fields. Blocks like
    :func:`jetsync.connect` when it has to connect, and raises what that raises. Thread-safe, and
    safe after a fork: the child gets a connection of its own. Do not close it: others use it.
    """
    if options is None:
        options = ConnectOptions(**fields)
    elif isinstance(options, str):
        options = ConnectOptions(servers=options, **fields)
    elif isinstance(options, ConnectOptions):
        options = dataclasses.replace(options, **fields) if fields else options
    else:
        raise ConfigError("shared_connection takes ConnectOptions or a URL")
    key = (os.getpid(), options)
    with _lock:
        nc = _connections.get(key)
        if nc is None or nc.is_closed:
            nc = _connections[key] = connect(options=options)
            nc._lifecycle.may_stay_open = True
        return nc


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - the parent's lock may be held by a thread that is not here
    _lock = threading.Lock()
    _connections.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
