"""ChunkMap: the sequences of an object's chunks, to read it from any position on.

The n-th chunk is the n-th message of one subject. Their sequences and sizes are read once, without
the bytes. Then any range is read by its sequences, so that each chunk is the right one, whichever
server gives it: from any server first, and what that server does not have (yet) from the leader.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from typing import TYPE_CHECKING

from jetsync._deadline import Deadline
from jetsync.errors import (
    ApiLevelRequiredError,
    DirectGetNotAllowedError,
    DisconnectedError,
    MessageNotFoundError,
    TimeoutError,
)
from jetsync.objectstore.info import ObjectInfo

if TYPE_CHECKING:
    from jetsync.objectstore.backing import ObjectBacking

__all__ = ["ChunkHead", "ChunkMap", "heads_of"]

_READ_AHEAD = 4 * 1024 * 1024
_DELAY = 0.1
_SILENCE = 3.0
_SIZE = "Nats-Msg-Size"


class ChunkHead:
    """A chunk without its bytes."""

    __slots__ = ("seq", "size", "time_ns")

    def __init__(self, seq: int, size: int, time_ns: int) -> None:
        self.seq: int = seq
        self.size: int = size
        self.time_ns: int = time_ns


def heads_of(backing: ObjectBacking, nuid: str, deadline: Deadline) -> list[ChunkHead]:
    """All chunks of one content that a server has, in order, without their bytes. Blocks."""
    heads: list[ChunkHead] = []
    with backing.js.ordered_consumer(
        backing.stream.name,
        filter_subjects=backing.chunk_subject(nuid),
        headers_only=True,
        timeout=deadline.remaining(),
    ) as ordered:
        wanted = ordered.cached_info.num_pending
        with ordered.messages() as messages:
            while len(heads) < wanted:
                try:
                    msg = messages.next(timeout=deadline.within(_SILENCE))
                except TimeoutError:
                    if deadline.expired:
                        raise
                    break  # some were removed meanwhile, or the link is slow: the caller compares
                data = msg.metadata
                size = int(msg.headers.get(_SIZE) or 0)
                heads.append(ChunkHead(data.stream_seq, size, data.timestamp_ns))
    return heads


class ChunkMap:
    """The chunks of one object. For one thread at a time."""

    def __init__(self, backing: ObjectBacking, info: ObjectInfo) -> None:
        self._backing = backing
        self._info = info
        self._heads: list[ChunkHead] = []
        self._starts: list[int] = []  # position of each chunk's first byte
        self._ahead: dict[int, bytes] = {}  # chunks by number
        self._last = -1

    def read(self, at: int, size: int, deadline: Deadline) -> memoryview:
        """The bytes from ``at`` on, as far as one chunk goes, at most ``size`` (-1: no limit).

        Blocks. Raises MessageNotFoundError when a chunk is not there.
        """
        if not self._heads:
            self._load(deadline)
        number = bisect_right(self._starts, at) - 1
        if number not in self._ahead:
            self._fetch(number, at, size, deadline)
        self._last = number
        piece = memoryview(self._ahead[number])[at - self._starts[number] :]
        return piece if size < 0 else piece[:size]

    def _load(self, deadline: Deadline) -> None:
        """Read the sequences. A server that is behind the leader may have too few chunks, or one
        that was removed since: what it says has to fit the description."""
        info = self._info
        while True:
            heads = heads_of(self._backing, info.nuid, deadline)
            fits = sum(head.size for head in heads) == info.size
            if fits and info.chunks in (0, len(heads)):
                break
            count = self._backing.chunk_counts(deadline, info.nuid).get(info.nuid, 0)
            if count == len(heads) or count < info.chunks:
                raise MessageNotFoundError("its chunks do not match its description", code=404)
            self._backing.api.port.sleep(deadline.within(_DELAY))
        self._heads = heads
        sizes = (head.size for head in heads[:-1])
        self._starts = list(itertools.accumulate(sizes, initial=0))

    def _fetch(self, number: int, at: int, size: int, deadline: Deadline) -> None:
        """Get the chunks that the range needs, and some more when reading goes on in order."""
        in_order = number == self._last + 1
        limit = at + (size if size >= 0 else _READ_AHEAD)
        if in_order:
            limit = max(limit, at + _READ_AHEAD)
        limit = min(limit, at + _READ_AHEAD, self._info.size)
        end = max(number + 1, bisect_right(self._starts, limit - 1))
        wanted = self._heads[number:end]
        found = self._from_any_server(wanted, deadline) if len(wanted) > 1 else {}
        self._ahead = {}
        for index, head in enumerate(wanted, number):
            data = found.get(head.seq)
            if data is None:
                data = self._backing.stream.get_msg(head.seq, timeout=deadline.remaining()).data
            if len(data) != head.size:
                raise MessageNotFoundError("a chunk has another size than before", code=404)
            self._ahead[index] = data

    def _from_any_server(self, wanted: list[ChunkHead], deadline: Deadline) -> dict[int, bytes]:
        """Get the chunks that a server gives in one answer; none where that is not possible."""
        try:
            batch = self._backing.stream.get_msgs(
                wanted[0].seq,
                max_messages=len(wanted),
                subject=self._backing.chunk_subject(self._info.nuid),
                timeout=deadline.within(2.0),
            )
        except (
            ApiLevelRequiredError,
            DirectGetNotAllowedError,
            DisconnectedError,
            TimeoutError,
        ):
            return {}
        return {msg.metadata.stream_seq: msg.data for msg in batch}
