"""Watcher: the entries of a bucket as they come, first those that are there (ADR-8)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from types import TracebackType

from jetsync._api_errors import StreamNotFoundError
from jetsync._deadline import Deadline, Seconds
from jetsync.errors import ConfigError, ConnectionClosedError, Error, TimeoutError
from jetsync.jetstream import JetStreamMsg, OrderedConsumer
from jetsync.kv.entry import Entry, KeyValueOperation, from_delivery
from jetsync.kv.place import Place, gone

__all__ = ["Watcher"]

_LOOK_AFTER = 0.5
"""So long nothing comes before the server is asked whether the initial entries are complete."""
_LEAST = 0.2
"""Seconds for a question in the middle of a call that may have none left."""


class Watcher:
    """An endless iterator over the entries of a bucket. Made by ``KeyValue.watch``.

    First come the initial entries, those that were there when the watch began; :meth:`initial`
    iterates over them alone. Then it blocks until somebody writes. Nothing is left out and no
    revision comes twice, whatever happens to servers and connections. An entry that is replaced
    before its turn comes as its replacement; one that is replaced again and again while the initial
    ones are read may come after them, as the update that it is.

    For one thread at a time (misuse raises ConfigError); :meth:`stop` may be called by any. As a
    context manager it stops at the end.
    """

    def __init__(
        self,
        place: Place,
        patterns: Sequence[str],
        ordered: OrderedConsumer,
        *,
        end: int,
        ignore_deletes: bool,
    ) -> None:
        self._place = place
        self._patterns = patterns
        self._ordered = ordered
        self._messages = ordered.messages()
        self._ignore_deletes = ignore_deletes
        self._hand: Iterator[JetStreamMsg] = iter(())
        self._held: JetStreamMsg | None = None  # an interrupted call leaves it to the next one
        self._busy = threading.Lock()
        self._stopped = False
        self._end = end  # the last initial revision
        self._asked_again = False
        # An ordered consumer that begins elsewhere than at the start has passed what is before.
        self._initial_done = end <= ordered.last_seq

    @property
    def initial_done(self) -> bool:
        """Whether all initial entries were handed out; what comes now are updates.

        A deletion that ``ignore_deletes`` left out can have been the last of them, so a loop that
        waits for this with ``next`` may wait for an update: use :meth:`initial`.
        """
        return self._initial_done

    # -- taking ------------------------------------------------------------------------------------

    def next(self, timeout: Seconds | None = None) -> Entry:
        """Return the next entry. Blocks up to ``timeout`` seconds (None: no limit).

        Raises TimeoutError when none came, BucketNotFoundError when the bucket is gone,
        JetStreamError when it was made again, ConnectionClosedError after :meth:`stop`.
        """
        deadline = Deadline(timeout)
        entry = self._next(deadline, initial=False)
        if entry is None:
            raise TimeoutError(
                f"nothing was written to bucket {self._place.bucket!r} in time", operation="next"
            )
        return entry

    def initial(self, timeout: Seconds | None = None) -> Iterator[Entry]:
        """Iterate over the initial entries and end when all were handed out.

        The whole iteration blocks up to ``timeout`` seconds (None: no limit) and raises
        TimeoutError then; otherwise it raises like :meth:`next`.
        """
        deadline = Deadline(timeout)
        while (entry := self._next(deadline, initial=True)) is not None:
            yield entry
        if not self._initial_done:
            raise TimeoutError(
                f"the initial entries of bucket {self._place.bucket!r} did not come in time",
                operation="initial",
            )

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        try:
            return self.next()
        except ConnectionClosedError:
            if not self._stopped:
                raise
            raise StopIteration from None

    def _next(self, deadline: Deadline, *, initial: bool) -> Entry | None:
        """The next entry; None if the time is up, or there is none more of the initial ones."""
        if not self._busy.acquire(blocking=False):
            raise ConfigError("a watcher belongs to one thread at a time")
        try:
            while not (initial and self._initial_done):
                msg = self._take(deadline)
                if msg is None:
                    if deadline.expired:
                        return None
                    continue
                if not self._initial_done:
                    self._count(msg.metadata.stream_seq, deadline)
                self._held = None
                key = msg.subject[len(self._place.prefix) :]
                entry = from_delivery(self._place.bucket, key, msg)
                if not self._ignore_deletes or entry.operation is KeyValueOperation.PUT:
                    return entry
            return None
        except StreamNotFoundError as error:
            raise gone(self._place.bucket) from error
        finally:
            self._busy.release()

    def _take(self, deadline: Deadline) -> JetStreamMsg | None:
        """The next message, held until it is handed out; None if none came for a while."""
        if self._stopped:
            raise ConnectionClosedError("the watcher was stopped")
        self._held = self._held or next(self._hand, None)
        if self._held is None:
            wait = deadline.remaining() if self._initial_done else deadline.within(_LOOK_AFTER)
            batch = next(self._messages.batches(timeout=wait), None)
            if batch is None:
                raise ConnectionClosedError("the watcher was stopped")
            self._hand = iter(batch)
            self._held = next(self._hand, None)
            if self._held is None and not self._initial_done:
                self._look(deadline)
        return self._held

    # -- where the initial entries end -------------------------------------------------------------
    #
    # What the server says of pending messages would tell, if it were right while somebody writes:
    # nats-server 2.15 counts each replaced entry off, also those that were counted off before. The
    # last revision that is there is always right.

    def _count(self, revision: int, deadline: Deadline) -> None:
        """Take note of a revision before it is handed out."""
        if revision < self._end:
            return
        if not self._asked_again:
            # Entries that were replaced before their turn come behind the end as it was.
            end = self._ask(deadline)
            if end is None:
                return  # asked again with the next message, or when none comes
            self._end, self._asked_again = end, end > revision
        self._initial_done = revision >= self._end

    def _look(self, deadline: Deadline) -> None:
        """Nothing comes although something should: it may have been removed before its turn."""
        end = self._ask(deadline)
        self._initial_done = end is not None and end <= self._ordered.last_seq

    def _ask(self, deadline: Deadline) -> int | None:
        """The last revision that is there; None if that cannot be known now (the next message
        brings whatever is wrong to light)."""
        seconds = max(deadline.within(self._place.js._api.timeout), _LEAST)
        try:
            return self._place.last_revision(self._patterns, Deadline(seconds))
        except Error:
            return None

    # -- ending ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the watch and delete its server consumer. Does not wait for it. Safe to repeat; any
        thread: one that waits in :meth:`next` is woken."""
        self._stopped = True
        self._ordered.close()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Watcher({self._place.bucket!r}, behind {self._ordered.last_seq})"
