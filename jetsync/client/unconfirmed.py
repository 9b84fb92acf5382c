"""Which SUB lines the server may still refuse, and which one it has refused.

A server that takes no more subscriptions says so without a name. But it answers in order: a refusal
comes before the PONG of every PING that was sent behind the SUB line, and behind the PONG of every
earlier one. Between two PINGs it refuses the last SUB lines, as long as no UNSUB line between them
made room; so a PING is sent before a SUB line that follows such an UNSUB line.

Lines of several threads are numbered in the order in which they leave: ``Outbound.subscribe`` notes
a line and puts it out in one step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

__all__ = ["Unconfirmed"]


class Unconfirmed:
    """The SUB lines of one link that no PONG has confirmed. Thread-safe without a lock: each step
    is one operation of a dict, and other threads and signal handlers may come between any two."""

    __slots__ = ("_confirmed", "_has_made_room", "lines", "numbers")

    def __init__(self) -> None:
        self.lines: dict[int, int] = {}
        """The number of each subscription id, in the order of the lines."""
        self.numbers: Iterator[int] = itertools.count(1)
        """The numbers that come next, of lines and of PINGs."""
        self._confirmed = 0
        self._has_made_room = False

    def replayed(self, sid: int) -> None:
        """Note a SUB line with which the link begins."""
        self.lines[sid] = next(self.numbers)

    def position(self) -> int:
        """The position of a PING that is sent next: SUB lines with lower numbers are before it."""
        return next(self.numbers)

    def made_room(self) -> None:
        """Note that an UNSUB line is written."""
        self._has_made_room = bool(self.lines)

    def wants_ping(self) -> bool:
        """Whether a PING has to be sent before the next SUB line; true once for each UNSUB."""
        wanted, self._has_made_room = self._has_made_room and bool(self.lines), False
        return wanted

    def confirmed(self, position: int) -> None:
        """Note the PONG of the PING at this position."""
        if position > self._confirmed:
            self._confirmed = position
            for sid, number in self.lines.copy().items():
                if number <= position:
                    self.lines.pop(sid, None)

    def refused(self, positions: Iterable[int]) -> int:
        """A SUB line was refused: return its subscription id; 0 when it is not known.

        ``positions`` are those of the PINGs that have no PONG yet, in their order.
        """
        lines = self.lines
        for position in (*positions, math.inf):
            if position <= self._confirmed:
                continue
            later: dict[int, int] = {}
            try:
                while True:
                    sid, number = lines.popitem()
                    if number <= position:
                        return sid
                    later[sid] = number
            except KeyError:  # no SUB line is left
                pass
            finally:
                lines.update(reversed(later.items()))
        return 0
