"""Fork: in the child, each connection of the parent refuses all work with ForkedError."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync._core.mailbox import abandon
from jetsync.client.dialling import DIALS
from jetsync.client.lifecycle import open_connections
from jetsync.errors import ForkedError

if TYPE_CHECKING:
    from jetsync._core.inbound import Inbound
    from jetsync.client.connection import Connection
    from jetsync.client.dispatch import Dispatcher
    from jetsync.client.routes import Routes
    from jetsync.client.session import Session

__all__: list[str] = []


def _after_fork_in_child() -> None:
    """Poison every inherited connection.

    Its threads do not exist in the child and may have held its locks at the fork, so nothing of it
    is used or freed. The descriptor is closed, not shut down: the parent goes on using the socket.
    """
    parent = os.getppid()

    def refusal() -> ForkedError:
        return ForkedError(
            f"this connection was made in process {parent}, before a fork; connect again in this "
            "process (jetsync.shared_connection does that by itself)"
        )

    DIALS.forget()
    for nc in list(open_connections):
        # An error with one connection must not leave the next ones usable.
        with contextlib.suppress(Exception):
            _poison(nc, refusal)
    open_connections.clear()


def _poison(nc: Connection, refusal: Callable[[], ForkedError]) -> None:
    """Make every call refuse, and close the descriptor. Takes no lock: a thread of the parent may
    have held it. The constructor may have been running, so attributes may be missing."""
    nc._refusal = refusal
    nc._forked = True
    abandon(nc)
    inbound: Inbound | None = getattr(nc, "_inbound", None)
    routes: Routes | None = getattr(nc, "_routes", None)
    session: Session | None = getattr(nc, "_session", None)
    abandon(nc._outbound)
    nc._outbound.abandon()
    for name in ("_dispatcher", "_recoverer"):
        dispatcher: Dispatcher | None = getattr(nc, name, None)
        if dispatcher is not None:
            dispatcher.abandon()
    if session is not None:
        session.sockets.abandon()
    if inbound is not None:
        abandon(inbound)
        inbound.abandon()
        for mailbox in inbound.pending_replies() + (routes.mailboxes() if routes else []):
            mailbox.abandon(refusal())  # also ends iterators that were made before


os.register_at_fork(after_in_child=_after_fork_in_child)
