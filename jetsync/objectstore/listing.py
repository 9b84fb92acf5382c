"""Listing a bucket of objects: the descriptions of names, and chunks without a description."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from jetsync._deadline import Deadline, Seconds
from jetsync.jetstream import JetStreamMsg
from jetsync.jetstream.buckets.listing import present
from jetsync.jetstream.config.consumer import DeliverPolicy
from jetsync.objectstore.backing import ObjectBacking
from jetsync.objectstore.found import Found
from jetsync.objectstore.moves import seen_by_readers
from jetsync.objectstore.ranges import heads_of
from jetsync.objectstore.watcher import FoundWatcher, begin, found_in

__all__ = ["PrunedChunks", "everything", "prune"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunedChunks:
    """Chunks that no name led to and that ``ObjectStore.prune`` has removed. Immutable."""

    nuid: str
    """Id of the content they were of."""
    chunks: int
    """How many messages."""
    size: int
    """How many bytes."""
    modified_ns: int
    """When the last one was stored, in nanoseconds since 1970."""

    @property
    def modified(self) -> datetime:
        """When the last one was stored (UTC, microseconds)."""
        return _EPOCH + timedelta(microseconds=self.modified_ns // 1000)


class _Budget:
    """The time of a call that lists: a budget for all of it, or one for each step."""

    def __init__(self, backing: ObjectBacking, timeout: Seconds | None) -> None:
        self._all = None if timeout is None else Deadline(timeout)
        self._each = backing.api.timeout

    def step(self) -> Deadline:
        return self._all or Deadline(self._each)

    def present(self, watcher: FoundWatcher) -> Iterator[Sequence[JetStreamMsg]]:
        return present(watcher, self._all, self._each)


def everything(backing: ObjectBacking, timeout: Seconds | None) -> list[Found]:
    """The last message about each name, as readers see it, oldest first. Blocks."""
    budget = _Budget(backing, timeout)
    return [
        seen_by_readers(backing, found.info.name, found, budget.step())
        if found.info is not None and found.is_moving
        else found
        for found in _last_messages(backing, budget)
    ]


def _last_messages(backing: ObjectBacking, budget: _Budget) -> list[Found]:
    last: dict[str, Found] = {}
    ordered, end = begin(backing, DeliverPolicy.LAST_PER_SUBJECT, budget.step())
    with FoundWatcher(backing, ordered, end) as watcher:
        for messages in budget.present(watcher):
            for msg in messages:
                subject = msg.subject
                last.pop(subject, None)
                last[subject] = found_in(backing, msg)
    return list(last.values())


def prune(backing: ObjectBacking, age: float, timeout: Seconds | None) -> list[PrunedChunks]:
    """See ``ObjectStore.prune``."""
    budget = _Budget(backing, timeout)
    limit_ns = int((time.time() - age) * 1e9)
    # First the chunks, then the names: an upload that ends in between is among the names.
    counts = backing.chunk_counts(budget.step())
    used: set[str] = set()
    moved: dict[str, str] = {}
    for found in _last_messages(backing, budget):
        if not found.is_free:
            used.add(found.nuid)
        elif found.moved_to is not None:
            moved[found.moved_to.nuid] = found.moved_to.name
            if found.is_moving:
                used.add(found.moved_to.nuid)
    removed = []
    for nuid in counts:
        if nuid in used or (nuid in moved and _has(backing, moved[nuid], nuid, budget)):
            continue
        heads = heads_of(backing, nuid, budget.step())
        if not heads or heads[-1].time_ns > limit_ns:
            continue
        backing.stream.purge(
            subject=backing.chunk_subject(nuid),
            seq=heads[-1].seq + 1,
            timeout=budget.step().remaining(),
        )
        size = sum(head.size for head in heads)
        removed.append(
            PrunedChunks(nuid=nuid, chunks=len(heads), size=size, modified_ns=heads[-1].time_ns)
        )
    return removed


def _has(backing: ObjectBacking, name: str, nuid: str, budget: _Budget) -> bool:
    found = backing.find(name, budget.step())
    return found is not None and found.has(nuid)
