"""Fork: what the child does with the connections of its parent. One hook, one error."""

from __future__ import annotations

import contextlib
import os

from jetsync._core.mailbox import abandon
from jetsync.client.lifecycle import open_connections
from jetsync.errors import ForkedError

__all__: list[str] = []


def _after_fork_in_child() -> None:
    """Poison every inherited connection.

    Its threads do not exist here and its locks may be held by them for ever, so nothing of it is
    used or freed. The descriptor is closed, not shut down: the parent goes on using the socket.
    """
    parent = os.getppid()

    def refusal() -> ForkedError:
        return ForkedError(
            f"this connection was made in process {parent}, before a fork; connect again in this "
            "process (jetsync.shared_connection does that by itself)"
        )

    for nc in list(open_connections):
        nc._refusal = refusal
        nc._forked = True
        abandon(nc)
        abandon(nc._inbound)
        nc._inbound.abandon()
        abandon(nc._outbound)
        nc._outbound.abandon()
        # Takes no lock: a thread that is not here may hold it.
        for mailbox in nc._routes.mailboxes() + nc._inbound.pending_replies():
            mailbox.abandon(refusal())  # also ends iterators that were made before
        sock = nc._session._sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.close()
    open_connections.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
