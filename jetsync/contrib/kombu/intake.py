"""Intake: how a channel shares its prefetch count among what it reads."""

from __future__ import annotations

from collections.abc import Iterable

from jetsync import Error
from jetsync.contrib.kombu.readers import GONE, Reader, Received

__all__ = ["Intake"]

_UNLIMITED = 100
"""Messages that a channel without a prefetch count keeps in its buffers."""


class Intake:
    """The readers of a channel. For the thread that drains events.

    What is in the buffers and what the application has not settled is never more than the prefetch
    count when a callback runs. The readers are asked one after another, highest priority first,
    what they have now; only when that is less than there is room for do they wait. One that is
    alone waits for exactly as many messages as there is room for. Of several each waits for one
    message, and what comes beyond the room goes back at once.
    """

    def __init__(self) -> None:
        self._readers: list[Reader] = []
        self._turn = 0

    def use(self, readers: Iterable[Reader]) -> None:
        """Read with these from now on."""
        before = set(map(id, self._readers))
        self._readers = sorted(readers, key=lambda reader: -reader.level)
        if {id(reader) for reader in self._readers} - before and len(self._readers) > 1:
            for reader in self._readers:
                reader.stop_waiting()  # one that was alone waits for more than its share

    def fill(self, prefetch: int, unsettled: int) -> list[Reader]:
        """Ask for as much as there is room for. Returns the readers whose consumer has gone.

        Raises what else has ended a pull, such as PermissionsError. May block for round trips.
        """
        gone = []
        for reader in self._readers:
            error = reader.check()
            if isinstance(error, GONE):
                gone.append(reader)
            elif isinstance(error, Error):
                raise error
        if gone:
            return gone
        room = self._room(prefetch, unsettled)
        if len(self._readers) == 1:
            self._fill_one(self._readers[0], room, prefetch)
        elif self._readers:
            self._fill_many(room, prefetch, unsettled)
        return [reader for reader in self._readers if reader.is_gone]

    def _room(self, prefetch: int, unsettled: int) -> int:
        buffered = sum(len(reader.buffer) for reader in self._readers)
        return prefetch - unsettled - buffered if prefetch else _UNLIMITED - buffered

    def _fill_one(self, reader: Reader, room: int, prefetch: int) -> None:
        waiting = reader.open
        if room > 0 and not waiting:
            room -= reader.take_now(room)  # under load no pull has to wait
        if room < waiting:
            reader.stop_waiting()  # the prefetch count has become less
            self._give_back(room)
        elif room > waiting and (not waiting or (room - waiting) * 4 >= (prefetch or _UNLIMITED)):
            reader.ask(room - waiting)

    def _fill_many(self, room: int, prefetch: int, unsettled: int) -> None:
        for reader in self._in_turn():
            if room <= 0:
                break
            if not reader.open:
                room -= reader.take_now(room)
        if room <= 0:
            for reader in self._readers:
                reader.stop_waiting()
            self._give_back(self._room(prefetch, unsettled))
            return
        for reader in self._readers:
            if not reader.open:
                reader.ask(1)

    def _in_turn(self) -> list[Reader]:
        """Higher levels first; queues of the same level in turn."""
        self._turn += 1
        count, turn = len(self._readers), self._turn
        places = {id(reader): n for n, reader in enumerate(self._readers)}
        return sorted(
            self._readers, key=lambda reader: (-reader.level, (places[id(reader)] + turn) % count)
        )

    def _give_back(self, room: int) -> None:
        """Hand back what is beyond the room: the last ones of the lowest levels."""
        for reader in reversed(self._readers):
            while room < 0 and reader.buffer:
                reader.buffer.pop().nak()
                room += 1

    def take(self) -> tuple[Reader, Received] | None:
        """Hand out one message that has come, of the highest level there is; None: none has."""
        for reader in self._in_turn():
            if reader.buffer:
                return reader, reader.buffer.popleft()
        return None
