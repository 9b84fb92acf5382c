"""Iterating over the contents of a bucket at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jetsync._deadline import Deadline
from jetsync.jetstream.buckets.watcher import BucketWatcher, take_initial
from jetsync.jetstream.message import JetStreamMsg

__all__ = ["present"]


def present(
    watcher: BucketWatcher[Any], deadline: Deadline | None, step: float
) -> Iterator[Sequence[JetStreamMsg]]:
    """Iterate over the messages that were in the bucket when the watch began, in batches as they
    come.

    With a ``deadline`` all of them have to come by then; without, the next ones within ``step``
    seconds: so a bucket of any size can be listed. Raises TimeoutError.
    """
    while messages := take_initial(watcher, deadline or Deadline(step)):
        yield messages
