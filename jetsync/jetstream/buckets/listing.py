"""Iterating over what is in a bucket at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from jetsync._deadline import Deadline
from jetsync.jetstream.buckets.watcher import BucketWatcher

__all__ = ["present"]

T = TypeVar("T")


def present(watcher: BucketWatcher[T], deadline: Deadline | None, step: float) -> Iterator[T]:
    """Iterate over what was there when the watch began.

    With a ``deadline`` all of it has to come by then; without, each next one within ``step``
    seconds: so a bucket of any size can be listed. Raises TimeoutError.
    """
    if deadline is not None:
        yield from watcher.initial(deadline.remaining())
        return
    while True:
        for one in watcher.initial(step):
            yield one
            break
        else:
            return
