"""jetsync.client - sockets, threads, and everything that can block.

Room:      L3. May import: protocol, _core, hallway. May not: jetstream or above.
Threads:   reader, writer, timer, events, dispatchers, replies (see docs/internals/threads.md).
Touch me:  to change connecting, reconnecting, closing, forking, subscriptions, request/reply.
Not here:  message semantics (jetstream/), byte formats (protocol/, _core/, csrc/).
"""

from __future__ import annotations

from jetsync._core.batch import MsgBatch
from jetsync._core.headers import (
    parent_texts,
    read_parents,
    trace_parents,
    unsampled_parent,
)
from jetsync._core.ids import next_nuid
from jetsync._core.message import Msg
from jetsync._core.notes import (
    MOST_NOTED,
    Noted,
    Running,
    call_noted,
    guarded,
    sum_notes,
    take_notes,
)
from jetsync.client import fork as _fork  # registers what a forked child does
from jetsync.client.connecting import connect
from jetsync.client.connection import Connection
from jetsync.client.events import Event
from jetsync.client.futures import DoneAndNotDone, RequestFuture, as_completed, wait
from jetsync.client.options import ConnectOptions
from jetsync.client.shared import shared_connection
from jetsync.client.stats import ConnectionStats
from jetsync.client.subscription import Subscription
from jetsync.client.tls_config import TLSConfig
from jetsync.protocol.serverpool import ReconnectAttempt, ServerState

__all__ = [
    "MOST_NOTED",
    "ConnectOptions",
    "Connection",
    "ConnectionStats",
    "DoneAndNotDone",
    "Event",
    "Msg",
    "MsgBatch",
    "Noted",
    "ReconnectAttempt",
    "RequestFuture",
    "Running",
    "ServerState",
    "Subscription",
    "TLSConfig",
    "as_completed",
    "call_noted",
    "connect",
    "guarded",
    "next_nuid",
    "parent_texts",
    "read_parents",
    "shared_connection",
    "sum_notes",
    "take_notes",
    "trace_parents",
    "unsampled_parent",
    "wait",
]
