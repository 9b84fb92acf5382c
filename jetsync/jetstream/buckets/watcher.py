"""BucketWatcher: the present contents of a bucket, then each write as it comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jetsync._deadline import Deadline, Seconds
from jetsync._handles import Handle
from jetsync._locks import lock
from jetsync.errors import (
    ConfigError,
    ConnectionClosedError,
    Error,
    StreamNotFoundError,
    TimeoutError,
)
from jetsync.jetstream.access import api_of
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.ordered.consumer import OrderedConsumer

if TYPE_CHECKING:
    from jetsync.jetstream.context import JetStream

__all__ = ["BucketWatcher", "take_initial"]

T = TypeVar("T")
R = TypeVar("R")
Self = TypeVar("Self", bound="BucketWatcher[Any]")

_ASK_AFTER = 0.5
"""Seconds of silence before the server is asked whether the present contents are complete."""
_LEAST = 0.2
"""Seconds for a request inside a call whose own time may be over."""


def _sequence(msg: JetStreamMsg) -> int:
    return msg.metadata.stream_seq


class BucketWatcher(Handle, ABC, Generic[T]):
    """An endless iterator over the contents of a bucket and the writes to it.

    First come the values that were there when the watch began; :meth:`initial` iterates over those
    alone. Then it blocks until there is a write. Nothing is left out and nothing comes twice, also
    when servers and connections fail. A value that is replaced before it is read comes as its
    replacement; one that is replaced several times while the first part is read may come after that
    part, as an update.

    For one thread at a time (misuse raises ConfigError); :meth:`stop` may be called by any. As a
    context manager it stops at the end.
    """

    def __init__(self, js: JetStream, bucket: str, ordered: OrderedConsumer, end: int) -> None:
        self._js = js
        self._bucket = bucket
        self._ordered = ordered
        self._messages = ordered.messages()
        self._msgs: Iterator[JetStreamMsg] = iter(())
        self._current: JetStreamMsg | None = None  # an interrupted call leaves it to the next one
        self._busy = lock("jetstream/buckets/watcher.py _busy")
        self._stopped = False
        self._end = end  # sequence of the last message that was there
        self._asked_again = False
        # An ordered consumer that does not begin at the start has passed the messages before it.
        self._initial_done = end <= ordered.last_seq

    # -- hooks of the two kinds of bucket ----------------------------------------------------------

    @abstractmethod
    def _read(self, msg: JetStreamMsg) -> T | None:
        """Return the item of a message; None to leave it out."""

    @abstractmethod
    def _last(self, deadline: Deadline) -> int:
        """Ask for the sequence of the last message that is watched for; 0 for none. Blocks."""

    @abstractmethod
    def _gone(self) -> Error:
        """The error for a bucket that is not there any more."""

    # -- taking ------------------------------------------------------------------------------------

    @property
    def initial_done(self) -> bool:
        """Whether the values that were there were all handed out; the next ones are updates.

        The last of it may be something that is left out, such as a deletion with
        ``ignore_deletes``. A loop that waits for this with ``next`` may then wait for an update:
        use :meth:`initial`.
        """
        return self._initial_done

    def next(self, timeout: Seconds | None = None) -> T:
        """Return what comes next. Blocks up to ``timeout`` seconds (None: no limit).

        Raises TimeoutError when nothing came, BucketNotFoundError or ObjectStoreNotFoundError when
        the bucket is gone, JetStreamError when it was made again, ConnectionClosedError after
        :meth:`stop`.
        """
        found = self._next(Deadline(timeout), initial=False)
        if found is None:
            raise TimeoutError(
                f"nothing was written to bucket {self._bucket!r} in time", operation="next"
            )
        return found

    def initial(self, timeout: Seconds | None = None) -> Iterator[T]:
        """Iterate over what was there when the watch began, and end when all was handed out.

        The whole iteration blocks up to ``timeout`` seconds (None: no limit) and raises
        TimeoutError then; otherwise it raises like :meth:`next`.
        """
        deadline = Deadline(timeout)
        while (found := self._next(deadline, initial=True)) is not None:
            yield found
        if not self._initial_done:
            raise self._too_late()

    def _too_late(self) -> TimeoutError:
        return TimeoutError(
            f"what was in bucket {self._bucket!r} did not come in time", operation="initial"
        )

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            return self.next()
        except ConnectionClosedError:
            if not self._stopped:
                raise
            raise StopIteration from None

    def _next(self, deadline: Deadline, *, initial: bool) -> T | None:
        """Return the next item; None if the time is up, or the first part is complete."""
        return self._alone(self._step, deadline, initial)

    def _alone(self, step: Callable[..., R], *arguments: object) -> R:
        """Take one step, if no other thread does."""
        if not self._busy.acquire(blocking=False):
            raise ConfigError("a watcher belongs to one thread at a time")
        try:
            if self._stopped:
                raise ConnectionClosedError("the watcher was stopped")
            return step(*arguments)
        except StreamNotFoundError as error:
            raise self._gone() from error
        finally:
            self._busy.release()

    def _step(self, deadline: Deadline, initial: bool) -> T | None:
        while not (initial and self._initial_done):
            msg = self._take(deadline)
            if msg is None:
                if deadline.expired:
                    return None
                continue
            if not self._initial_done:
                self._count(_sequence(msg), deadline)
            self._current = None
            found = self._read(msg)
            if found is not None:
                return found
        return None

    def _initial_batch(self, deadline: Deadline) -> Sequence[JetStreamMsg]:
        while not self._initial_done:
            batch = self._load(deadline)
            if not batch:
                if deadline.expired:
                    raise self._too_late()
                continue
            last = batch.last_seq
            if last is not None and last < self._end:
                return batch
            # Sequences grow: the end can only be at one that is not below it.
            for at in range(bisect_left(batch, self._end, key=_sequence), len(batch)):
                self._count(_sequence(batch[at]), deadline)
                if self._initial_done:
                    return batch[: at + 1]
            return batch
        return ()

    def _take(self, deadline: Deadline) -> JetStreamMsg | None:
        """The next message, held until it is handed out; None if none came for a while."""
        self._current = self._current or next(self._msgs, None)
        if self._current is None:
            self._msgs = iter(self._load(deadline))
            self._current = next(self._msgs, None)
        return self._current

    def _load(self, deadline: Deadline) -> MsgBatch:
        """The messages that have come; empty if none came for a while."""
        wait = deadline.remaining() if self._initial_done else deadline.within(_ASK_AFTER)
        batch = next(self._messages.batches(timeout=wait), None)
        if batch is None:
            raise ConnectionClosedError("the watcher was stopped")
        if not batch and not self._initial_done:
            self._check_bucket(deadline)
        return batch

    # -- where the first part ends -----------------------------------------------------------------
    #
    # The server's count of pending messages would tell, if it were right during writes:
    # nats-server 2.15 counts each replaced one off, also those that were counted off before. The
    # last sequence that is there is always right.

    def _count(self, seq: int, deadline: Deadline) -> None:
        """Take note of a message before it is handed out."""
        if seq < self._end:
            return
        if not self._asked_again:
            # A message that was replaced before it was read has its replacement behind the end.
            end = self._ask(deadline)
            if end is None:
                return  # asked again with the next message, or when none comes
            self._end, self._asked_again = end, end > seq
        self._initial_done = seq >= self._end

    def _check_bucket(self, deadline: Deadline) -> None:
        """Deal with silence before the end of the first part: the rest may have been removed."""
        end = self._ask(deadline)
        self._initial_done = end is not None and end <= self._ordered.last_seq

    def _ask(self, deadline: Deadline) -> int | None:
        """The last sequence in the bucket; None if it cannot be known now (reading the next message
        raises the reason)."""
        try:
            return self._last(Deadline(max(deadline.within(api_of(self._js).timeout), _LEAST)))
        except Error:
            return None

    # -- ending ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the watch and delete its server consumer. Does not wait for it. Safe to repeat; any
        thread: one that waits in :meth:`next` is woken."""
        self._stopped = True
        self._ordered.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._bucket!r}, behind {self._ordered.last_seq})"


def take_initial(watcher: BucketWatcher[Any], deadline: Deadline) -> Sequence[JetStreamMsg]:
    """Return the messages of the first part that have come, unread; none when there are no more.
    For listings, which take nothing else. Blocks for one; raises TimeoutError and like
    ``BucketWatcher.next``."""
    return watcher._alone(watcher._initial_batch, deadline)
