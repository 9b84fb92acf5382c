"""Intake: keeps the messages of a key in order, also when deliveries were lost on their way."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync._log import Log
from jetsync.errors import Error
from jetsync.worker.lanes import Job, Lanes

if TYPE_CHECKING:
    from jetsync import JetStreamMsg
    from jetsync._latch import Latch
    from jetsync.jetstream.settle import Feed

__all__ = ["Order"]

logger: Log = Log("jetsync.worker")

_SLACK = 0.5
_MARGIN = 2.0
_FUTILE = 3
_LOOK_EVERY = 1.0


class Order:
    """Gives messages to lanes by their keys; used by the thread that takes them.

    The server numbers its deliveries. After a gap some were lost on their way, with a link that
    broke, and come again when ``ack_wait`` is over. Messages behind the gap wait for them here,
    since they could have the same key. So do all messages for those that an earlier worker left:
    the server delivers them again in the order in which their time ran out.

    Those that do not come are with another client: that is a problem until they are settled, by
    this worker or another. After three waits in vain it waits no more, and the problem stays.
    """

    def __init__(
        self, key: Callable[[JetStreamMsg], Hashable], lanes: Lanes, feed: Feed, pending: int
    ) -> None:
        self._key = key
        self._lanes = lanes
        self._feed = feed
        self._expected: int | None = None
        self._lost = 0
        self._left = pending  # by an earlier worker
        self._futile = 0
        self._room_at: float | None = None
        self._until: float | None = None
        self._parked: list[Job] = []
        # The server is ready by then to deliver again what an earlier worker left.
        self.begins: float = time.monotonic() + (feed.ack_wait + _SLACK if pending else 0.0)
        self.problem: str | None = None
        self._look_at = 0.0
        self._settled_at: int | None = None  # where the ack floor is when the problem is over

    def begin(self, stopping: Latch) -> None:
        """Wait for :attr:`begins`, and expect what an earlier worker left, as far as it has not
        settled that since. Called once. Blocks until then, and while it asks the server; that may
        fail."""
        if self._left and not stopping.wait(self.begins - time.monotonic()):
            with contextlib.suppress(Error):
                self._left = self._feed.consumer.info().num_ack_pending
            self._expect(self._left, time.monotonic())
            self._feed.free(max(0, self._left - self._feed.credit))

    def saw(self, consumer_seq: int) -> None:
        """Note the number of a delivery, before anything else is done with it."""
        expected, self._expected = self._expected, consumer_seq + 1
        if expected is not None and consumer_seq > expected and self._futile < _FUTILE:
            self._room_at = time.monotonic() + self._feed.ack_wait + _SLACK
            self._expect(consumer_seq - expected, self._room_at)

    def _expect(self, lost: int, ready_at: float) -> None:
        """Park messages until so many more come that were delivered before. The server is ready to
        deliver them again at ``ready_at``."""
        self._lost += lost
        self._until = ready_at + self._feed.ack_wait / 4 + _MARGIN

    def give(self, job: Job) -> None:
        """Give a job to the lane of its key, at once or after :meth:`end_wait`."""
        if self._lost and job.deliveries > 1:
            self._lost -= 1  # it was not here before
        try:
            job.key = self._key(job.msg)
            hash(job.key)
        except Exception:
            logger.exception("key= raised: message %s is in the order of None", job.seq)
            job.key = None
        if self._until is None:
            self._lanes.add(job)
        else:
            self._parked.append(job)

    def end_wait(self) -> None:
        """End the wait for lost deliveries when it is over. Until then new messages may take all
        room; when the server is ready to deliver the lost ones again, there is more for them. May
        ask the server, now and then, while there is a problem."""
        if self.problem is not None and self._futile < _FUTILE:
            self._look_again()
        if self._room_at is not None and time.monotonic() >= self._room_at:
            self._room_at = None
            if self._lost > 0:
                self._feed.free(self._lost)
        if self._until is None or (self._lost > 0 and time.monotonic() < self._until):
            return
        if self._lost > 0:
            self._futile += 1
            self.problem = (
                counted(self._lost, "delivery", "deliveries")
                + " did not come again within ack_wait: another client takes "
                "messages of this consumer, and the order of keys holds in one process only"
            )
            logger.warning("%s", self.problem)
            self._look_at, self._settled_at = 0.0, None
        self._lost, self._until = 0, None
        parked, self._parked = sorted(self._parked), []
        for job in parked:
            self._lanes.add(job)

    def _look_again(self) -> None:
        """Take the problem back when all is settled that was delivered when it was told."""
        if (now := time.monotonic()) < self._look_at:
            return
        self._look_at = now + max(_LOOK_EVERY, self._feed.ack_wait / 4)
        try:
            info = self._feed.consumer.info()
        except Error:
            return
        if self._settled_at is None:
            self._settled_at = info.delivered.stream_seq
        if info.ack_floor.stream_seq >= self._settled_at:
            self.problem = None

    def end(self) -> list[Job]:
        """Return the jobs that wait for lost deliveries, which come no more: no lane gets them."""
        parked, self._parked = sorted(self._parked), []
        return parked
