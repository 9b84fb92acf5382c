"""The order of what one thread publishes, whichever calls it mixes.

``publish_async`` returns before its message has left: it may wait for a link, for room, or until
what the link lost before it was sent again. What the same thread publishes by another call must not
overtake it. Windows hand over in turn, new messages and copies (jetsync/_core/in_flight.pyx). A
core publish joins the window of ``publish_async`` as a message without confirmation
(jetsync/_core/sequenced.pyx). ``publish`` waits here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._deadline import Deadline

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["await_turn"]

_CHECK_EVERY = 0.005


def await_turn(port: Port, deadline: Deadline) -> bool:
    """Wait until nothing that this thread has published before can be overtaken. Returns False when
    the time is over before. Ctrl-C interrupts."""
    for window in port.outbound.windows:
        end = window.added
        while window.would_be_overtaken(end):
            port.check()
            if deadline.expired:
                return False
            port.sleep(deadline.within(_CHECK_EVERY))
    return True
