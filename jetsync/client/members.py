"""Members: objects that follow the life of a connection. One registry for all of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from jetsync._deadline import Deadline

__all__ = ["Member", "Members"]


class Member:
    """An object that follows the life of a connection. Calls that are not overridden do nothing.

    The calls come from threads of the connection, or from the one that drains or closes it.
    """

    def link_changed(self) -> None:
        """The link came or went, or the connection began to drain: check the port again. Called
        by the reader among others: must not block or raise."""

    def drain(self, deadline: Deadline) -> None:
        """Nothing more comes in: finish what is there. Blocks up to the deadline; raises Error
        (TimeoutError) when that was not possible."""

    def close(self) -> None:
        """The connection has ended: stop, and wake waiting threads. Must not block or raise."""

    def join(self, timeout: float | None) -> None:
        """Wait for the end of the member's threads, up to ``timeout`` seconds."""


class Members:
    """The members of one connection, in the order in which they came. Thread-safe, takes no lock.

    They are held weakly, so that a handle which the user drops is freed.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Callable[[], Member | None], bool]] = {}

    def attach(self, member: Member, *, sends: bool, hold: bool) -> None:
        """See ``Port.attach``."""
        key = id(member)
        entries = self._entries
        if hold:
            entries[key] = ((lambda: member), sends)
        else:
            entries[key] = (weakref.ref(member, lambda _: entries.pop(key, None)), sends)

    def detach(self, member: Member) -> None:
        """See ``Port.detach``."""
        entry = self._entries.get(id(member))
        if entry is not None and entry[0]() is member:
            self._entries.pop(id(member), None)

    def all(self) -> list[Member]:
        """Return the members; those that send come last."""
        found = [(sends, get()) for get, sends in list(self._entries.values())]
        found.sort(key=lambda entry: entry[0])
        return [member for _, member in found if member is not None]

    def link_changed(self) -> None:
        """Tell all of them: see ``Member.link_changed``."""
        for member in self.all():
            member.link_changed()

    def __len__(self) -> int:
        return len(self._entries)
