"""The states of a connection, and a table of the changes that are allowed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from jetsync.errors import ConnectionClosedError, DrainingError, Error

__all__ = ["TRANSITIONS", "Life", "Status", "diagram", "transition"]


class Status(str, Enum):
    """Where a connection is in its life; compares equal to its name as a string."""

    DISCONNECTED = "DISCONNECTED"
    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    RECONNECTING = "RECONNECTING"
    DRAINING_SUBS = "DRAINING_SUBS"
    DRAINING_PUBS = "DRAINING_PUBS"
    CLOSED = "CLOSED"

    def __str__(self) -> str:
        return str(self.value)


INITIAL = Status.DISCONNECTED

TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    Status.DISCONNECTED: frozenset({Status.CONNECTING, Status.CLOSED}),
    # To RECONNECTING: the first connect failed and retry_on_initial_connect goes on behind.
    Status.CONNECTING: frozenset({Status.CONNECTED, Status.RECONNECTING, Status.CLOSED}),
    Status.CONNECTED: frozenset({Status.RECONNECTING, Status.DRAINING_SUBS, Status.CLOSED}),
    Status.RECONNECTING: frozenset({Status.CONNECTED, Status.DRAINING_SUBS, Status.CLOSED}),
    # A link that dies while draining does not change the status: there is no way back from here.
    Status.DRAINING_SUBS: frozenset({Status.DRAINING_PUBS, Status.CLOSED}),
    Status.DRAINING_PUBS: frozenset({Status.CLOSED}),
    Status.CLOSED: frozenset(),
}


def transition(old: Status, new: Status) -> Status:
    """Return ``new`` if a connection may go there from ``old``.

    Otherwise raises ``ConnectionClosedError`` (it is closed), ``DrainingError`` (it is on its way
    to be) or ``Error`` (a mistake inside jetsync). Pure: the caller holds the status.
    """
    if new in TRANSITIONS[old]:
        return new
    if old is Status.CLOSED:
        raise ConnectionClosedError("the connection is closed; make a new one")
    if old in (Status.DRAINING_SUBS, Status.DRAINING_PUBS):
        raise DrainingError(f"the connection is being drained and cannot become {new}")
    raise Error(f"a connection cannot go from {old} to {new}")


class Life:
    """The status of one connection. Takes no lock: each part has one writer.

    The reader says how the link is, the thread that drains how far that is, and the one that closes
    that it is over. Draining hides the link, and the end hides everything.
    """

    __slots__ = ("_draining", "_link", "closed")

    def __init__(self) -> None:
        self._link = INITIAL
        self._draining: Status | None = None
        self.closed: bool = False
        """Whether it has ended for good."""

    def link(self, new: Status) -> None:
        """The link is being made, there, or lost. Called by the reader."""
        if new is not self._link:
            self._link = transition(self._link, new)

    def drain(self, new: Status) -> None:
        """A step of draining is reached. Called by the one thread that drains."""
        self._draining = new if self._draining is None else transition(self._draining, new)

    def close(self) -> None:
        """The connection has ended. Safe to repeat."""
        self.closed = True

    @property
    def status(self) -> Status:
        """The present status."""
        return Status.CLOSED if self.closed else self._draining or self._link


def diagram() -> str:
    """Return the table as a Mermaid state diagram; the documentation is made from it."""
    lines = ["stateDiagram-v2", f"    [*] --> {INITIAL}"]
    for old in Status:
        lines += [f"    {old} --> {new}" for new in Status if new in TRANSITIONS[old]]
    lines += [f"    {end} --> [*]" for end in Status if not TRANSITIONS[end]]
    return "\n".join(lines) + "\n"
