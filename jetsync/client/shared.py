"""One connection per process and options, for UDFs and other code that cannot pass one around."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING

from jetsync._locks import lock
from jetsync._log import Log
from jetsync._signatures import check_options, spells_out
from jetsync.client.connecting import connect
from jetsync.client.connection import Connection
from jetsync.client.options import ConnectFields, ConnectOptions, options_of_context
from jetsync.client.sameness import identity
from jetsync.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["shared_connection"]

_Key = tuple[int, Hashable]
_MANY = 64
"""A process with so many shared connections most likely passes a new function each time."""

logger: Log = Log("jetsync.connection")

_locks: dict[_Key, threading.Lock] = {}
_connections: dict[_Key, Connection] = {}


@spells_out(ConnectOptions)
def shared_connection(
    options: ConnectOptions | str | None = None,
    *,
    context: str | os.PathLike[str] | None = None,
    **fields: Unpack[ConnectFields],
) -> Connection:
    """Return this process's connection for these options; make it when there is none or it closed.

    ``options`` is a ConnectOptions or a URL; ``context`` in its place names a context of the
    ``nats`` command; keywords are fields that override those of it. Blocks like
    :func:`jetsync.connect` when it has to connect, and raises what that raises (ConfigError,
    NoServersError, AuthorizationError, TLSRequiredError). Thread-safe, and safe after a fork: the
    child gets a connection of its own. Do not close it: others use it.
    Functions among the options count as equal when their code and variables are: a lambda of a UDF
    makes one connection, not one for each call.
    """
    check_options("shared_connection", fields, ConnectFields)
    if context is not None:
        if options is not None:
            raise ConfigError("give either options or context, not both")
        options = options_of_context(context, fields)
    elif options is None:
        options = ConnectOptions()
    elif isinstance(options, str):
        options = ConnectOptions(servers=options)
    elif not isinstance(options, ConnectOptions):
        raise ConfigError("shared_connection takes ConnectOptions or a URL")
    if context is None and fields:
        options = dataclasses.replace(options, **fields)
    key = (os.getpid(), identity(options))
    # One lock for each key: a server that does not answer holds up only calls for that server.
    with _locks.setdefault(key, lock("client/shared.py _locks")):
        nc = _connections.get(key)
        if nc is None or nc.is_closed:
            nc = _connections[key] = connect(options=options)
            nc._lifecycle.may_stay_open = True
            if len(_connections) == _MANY:
                logger.warning(
                    f"this process has {_MANY} shared connections: pass the same functions to "
                    "shared_connection each time, or functions without variables that have no hash"
                )
        return nc


def _after_fork_in_child() -> None:
    _locks.clear()  # a thread of the parent may have held one
    _connections.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
