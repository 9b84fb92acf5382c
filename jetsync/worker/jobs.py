"""Jobs: the messages that a worker holds, and the turn to take more of them."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetsync._locks import lock
from jetsync.jetstream.settle import delivery_of, is_refused
from jetsync.worker.lanes import Job

if TYPE_CHECKING:
    from jetsync import JetStreamMsg
    from jetsync._latch import Latch
    from jetsync.jetstream.settle import Feed
    from jetsync.worker.intake import Order

__all__ = ["Jobs"]


class Jobs:
    """The messages of ``feed`` that a worker holds, at most ``limit``. ``feed`` is set before use.

    One thread at a time takes messages; any thread may hold the turn to do so. A job that waits
    belongs to the thread that claims it. Thread-safe.
    """

    feed: Feed
    order: Order | None = None

    def __init__(self, limit: int, stopping: Latch) -> None:
        self.limit = limit
        self.half: int = max(1, limit // 2)
        self._stopping = stopping
        self.by_seq: dict[int, Job] = {}  # by sequence in the stream
        self.ready: collections.deque[Job] = collections.deque()
        """Jobs that may begin, and some that another thread has claimed since."""
        self._waiting: set[Job] = set()
        self.turn = lock("worker/jobs.py turn")

    # -- taking ------------------------------------------------------------------------------------

    def may_take(self) -> bool:
        """Whether no thread takes messages, and one should."""
        if self.turn.locked() or self._stopping.is_set():
            return False
        return self.feed.credit > 0 or self._room() > 0

    def take(self, seconds: float, send: Callable[[], object]) -> None:
        """Ask for messages, and take what came, unless another thread does. Waits up to so many
        seconds for the first, after ``send``; 0: only asks. Raises what the feed raises."""
        if not self.turn.acquire(blocking=False):
            return
        try:
            if self._stopping.is_set():
                return
            feed = self.feed
            if free := self._room():
                feed.free(free)
            if seconds and feed.credit > 0:
                send()  # what has not left with a pull
                self._admit(feed.take(seconds))
            if self.order is not None:
                self.order.end_wait()
        finally:
            self.turn.release()

    def check_order(self) -> None:
        """End a wait of the order that is over, unless another thread takes: that one does it."""
        if self.order is not None and self.turn.acquire(blocking=False):
            try:
                self.order.end_wait()
            finally:
                self.turn.release()

    def _room(self) -> int:
        """How many more messages to ask for. It is half of the limit or more, so that few pulls are
        sent; or less, when no job waits and no message is expected."""
        credit = self.feed.credit
        free = self.limit - len(self.by_seq) - credit
        if free < self.half and (credit > 0 or self.ready):
            return 0
        return max(0, free)

    def _admit(self, messages: list[JetStreamMsg]) -> None:
        """Make jobs of messages, for the threads that wait for one."""
        by_seq, waiting, order = self.by_seq, self._waiting, self.order
        start = self.ready.append if order is None else order.give
        for msg in messages:
            deliveries, seq, consumer_seq, stamp = delivery_of(msg)
            if order is not None:
                order.saw(consumer_seq)
            here = by_seq.get(seq)
            if here is None or here.stamp != stamp:
                # It may have been done before: after a reset of the consumer it is done again.
                if here is not None:  # of a stream that was made again since
                    waiting.discard(here)
                by_seq[seq] = job = Job(msg, deliveries, seq, stamp)
                waiting.add(job)
                start(job)
            else:  # delivered again although it is alive here: it is settled by this one
                if here.given is not None and is_refused(here.given):
                    here.came_again = True  # its handler's outcome does not count
                here.msg = msg
                here.deliveries = max(here.deliveries, deliveries)

    # -- which thread has a job --------------------------------------------------------------------

    def claim(self, job: Job) -> bool:
        """Give a job that waits to the caller; False when another thread has it."""
        try:
            self._waiting.remove(job)
        except KeyError:
            return False
        return True

    def wait_again(self, job: Job) -> None:
        """Put a job of the caller back among those that wait."""
        self._waiting.add(job)

    def waiting(self) -> list[Job]:
        """Return the jobs that no thread has claimed, in the order of the stream."""
        return sorted(list(self._waiting))
