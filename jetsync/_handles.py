"""Handle: the base of objects that belong to a connection of this process."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Handle"]


class Handle:
    """An object that uses a connection of this process, so it cannot be pickled or copied."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"{self!r} belongs to a connection of this process and cannot be pickled or copied: "
            "send the options of the connection (nc.options) and names, and look it up again "
            "where it is used, with jetsync.shared_connection(options)"
        )
