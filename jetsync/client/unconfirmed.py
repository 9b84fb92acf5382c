"""Which SUB lines the server may still refuse, and which one it has refused.

A server that takes no more subscriptions says so without a name. But it answers in order: a refusal
comes before the PONG of every PING that was sent behind the SUB line, and behind the PONG of every
earlier one. Between two PINGs it refuses the last SUB lines, as long as no UNSUB line between them
made room; so a PING is sent before a SUB line that follows such an UNSUB line.

Of SUB lines that several threads write at the same moment the order is not known: when the server
takes only some of them, another one of these may be named.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

__all__ = ["Unconfirmed"]


class Unconfirmed:
    """The SUB lines of one link that no PONG has confirmed. Thread-safe without a lock: each step
    is one operation of a dict, and other threads and signal handlers may come between any two."""

    __slots__ = ("_confirmed", "_has_made_room", "_lines", "_numbers", "_on_its_way")

    def __init__(self) -> None:
        self._lines: dict[int, int] = {}  # the number of each subscription id
        self._numbers: Iterator[int] = itertools.count(1)
        # The subscriptions whose lines are being written, each with a number that is not above
        # that of its line.
        self._on_its_way: dict[int, int] = {}
        self._confirmed = 0
        self._has_made_room = False

    def begin(self, sid: int) -> None:
        """Note a SUB line that is about to be written, and may be refused."""
        # Before it has a number: a PING in between must not be taken for one behind this line.
        self._on_its_way[sid] = self._confirmed + 1
        number = next(self._numbers)
        self._lines.pop(sid, None)
        self._lines[sid] = number
        self._on_its_way[sid] = number

    def end(self, sid: int) -> None:
        """Note that the line was written: a PING written later is behind it."""
        self._on_its_way.pop(sid, None)

    @property
    def newest(self) -> int:
        """The number up to which every SUB line was written."""
        # In this order: a line that begins between the two steps is in neither.
        last = max(self._lines.copy().values(), default=self._confirmed)
        return min([last, *(number - 1 for number in self._on_its_way.copy().values())])

    def made_room(self) -> None:
        """Note that an UNSUB line is written."""
        self._has_made_room = bool(self._lines)

    def wants_ping(self) -> bool:
        """Whether a PING has to be sent before the next SUB line; true once for each UNSUB."""
        wanted, self._has_made_room = self._has_made_room and bool(self._lines), False
        return wanted

    def confirmed(self, number: int) -> None:
        """Note the PONG of a PING that was sent when ``newest`` was this number."""
        if number > self._confirmed:
            self._confirmed = number
            for sid, each in self._lines.copy().items():
                if each <= number:
                    self._lines.pop(sid, None)

    def refused(self, numbers: Iterable[int]) -> int:
        """A SUB line was refused: return its subscription id; 0 when it is not known.

        ``numbers`` are what ``newest`` was at each PING that has no PONG yet, in their order.
        """
        lines = self._lines
        for newest in (*numbers, math.inf):
            if newest <= self._confirmed:
                continue
            later: dict[int, int] = {}
            try:
                while True:
                    sid, number = lines.popitem()
                    if number <= newest:
                        return sid
                    later[sid] = number
            except KeyError:  # no SUB line is left
                pass
            finally:
                lines.update(reversed(later.items()))
        return 0
