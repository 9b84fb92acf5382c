"""Working messages off from Spark tasks: many executors share one durable consumer.

The source of the ``jetstream`` format reads without consuming, in ranges that can be read again.
Here it is the other way round: the server hands each message to one of the tasks and forgets it
when the work is acknowledged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jetsync._counted import counted
from jetsync._deadline import Seconds, to_seconds
from jetsync._log import Log
from jetsync.errors import ConsumerNotFoundError, StreamNotFoundError
from jetsync.jetstream.settle import Settler
from jetsync.spark.connection import link_of, shared, with_patience
from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.foreach import counts_like
from jetsync.spark.options import LinkOptions
from jetsync.spark.sentences import sentence_first

if TYPE_CHECKING:
    from jetsync import Consumer, JetStream, JetStreamMsg, MsgBatch

__all__ = ["consume_partition"]

log: Log = Log("jetsync.spark")


def consume_partition(
    *,
    stream: str,
    consumer: str,
    work: Callable[[JetStreamMsg], Any],
    max_messages: int | None = None,
    idle_timeout: Seconds = 5.0,
    batch_size: int = 100,
    nak_delay: Seconds | None = None,
    max_failures: int = 100,
    **options: str,
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function for ``foreachPartition`` or ``mapInArrow`` that works messages off.

    Each task of the data frame calls ``work`` with one message after the other, until it had
    ``max_messages`` or none came for ``idle_timeout`` seconds; the rows of the data frame do not
    matter, only how many partitions it has. Further keywords are connection options
    (``servers=...``). The durable ``consumer`` must exist, be a pull consumer and acknowledge
    explicitly; all tasks share it.

    A message is acknowledged after ``work`` has returned, and the acknowledgements have reached the
    server when the task ends. Up to ``batch_size`` messages are held at a time and kept alive
    however long the work takes. If ``work`` raises, its message is given back (after ``nak_delay``
    seconds) and the next one follows; the task fails when that happened more than ``max_failures``
    times. ``work`` may settle a message itself (``msg.term()``), or raise ``Reject`` or ``Retry``
    of :mod:`jetsync.worker`, which mean the same here. A worker that is killed has
    acknowledged what it had done, and the rest is delivered again after the consumer's
    ``ack_wait``: nothing gets lost, the last message may be worked on twice. The first
    acknowledgement of a task is confirmed, so that a task fails where it may not acknowledge.

    With ``mapInArrow`` (schema ``"done bigint, failed bigint"``) each task gives a row of counts.
    The function raises ``SparkSourceError``, ``JETSYNC_CONSUMER_NOT_FOUND`` and
    ``JETSYNC_ACCESS_DENIED`` among others.
    """
    if batch_size < 1 or max_failures < 0 or (max_messages is not None and max_messages < 1):
        raise SparkOptionError(
            "max_messages and batch_size must be 1 or more, max_failures 0 or more",
            code="JETSYNC_INVALID_OPTION",
        )
    idle = to_seconds(idle_timeout, "idle_timeout")
    delay = None if nak_delay is None else to_seconds(nak_delay, "nak_delay")
    link = link_of(options)

    @sentence_first
    def consume(rows: Iterable[Any]) -> Iterator[Any]:
        example = None
        for row in rows:  # Spark's writer process waits until all rows are read
            example = row
        worker = _Worker(link, stream, consumer, work, delay, max_failures)
        worker.run(max_messages, batch_size, idle)
        return counts_like(example, done=worker.done, failed=worker.failed)

    return consume


class _Worker:
    """One task's part of the work."""

    def __init__(
        self,
        link: LinkOptions,
        stream: str,
        consumer: str,
        work: Callable[[JetStreamMsg], Any],
        nak_delay: float | None,
        max_failures: int,
    ) -> None:
        self._link = link
        self._names = stream, consumer
        self._what = f"working off consumer {consumer} of stream {stream}"
        self._work = work
        self._settler = Settler(lambda _message, _error: nak_delay or 0.0)
        self._has_confirmed = False
        self._max_failures = max_failures
        self._handle: Consumer | None = None
        self.done = 0
        self.failed = 0

    def run(self, max_messages: int | None, batch_size: int, idle: float) -> None:
        left = max_messages
        while left is None or left > 0:
            wanted = batch_size if left is None else min(left, batch_size)
            fetch = functools.partial(self._fetch, count=wanted, idle=idle)
            batch = with_patience(self._link, self._what, fetch)
            if not len(batch):
                return
            self._work_on(batch)
            if left is not None:
                left -= len(batch)

    def _fetch(self, js: JetStream, count: int, idle: float) -> MsgBatch:
        if self._handle is None:
            self._handle = _open(js, *self._names)
        try:
            return self._handle.fetch(count, timeout=idle, eager=True)
        except Exception:
            self._handle = None  # look it up again: it may be gone, or its connection
            raise

    def _acknowledge(self, message: JetStreamMsg) -> None:
        """Acknowledge a message that is worked on. The first one of a task is confirmed: servers
        answer with an error where acknowledging is not permitted."""
        if not self._has_confirmed and not message.is_acked:
            with_patience(self._link, self._what, lambda _: message.ack_sync())
            self._has_confirmed = True
        self._settler.done(message)

    def _work_on(self, batch: MsgBatch) -> None:
        trouble: Exception | None = None
        with batch.keep_alive():
            for message in batch:
                try:
                    self._work(message)
                except Exception as error:  # noqa: BLE001 - the user's own
                    tries = message.metadata.num_delivered
                    verdict = self._settler.judge(message, error, tries)
                    if verdict.delay is None:
                        self._settler.give_up(message, verdict.reason, error, tries)
                    else:
                        self._settler.try_again(message, verdict.delay)
                    self.failed += 1
                    log.warning("%s: %s: %s", self._what, type(error).__name__, error)
                    if self.failed > self._max_failures:
                        trouble = error
                        batch.nak()  # those on which no work has begun
                        break
                else:
                    self._acknowledge(message)
                    self.done += 1
        # A worker process may end right after its task, without sending what is still waiting.
        with_patience(self._link, self._what, lambda _: shared(self._link).flush())
        if trouble is not None:
            raise SparkSourceError(
                f"{self._what}: the work has failed {counted(self.failed, 'time')} in this task "
                f"(max_failures is {self._max_failures}); last: {type(trouble).__name__}: "
                f"{trouble}",
                code="JETSYNC_WORK_FAILED",
            ) from trouble


def _open(js: JetStream, stream: str, consumer: str) -> Consumer:
    try:
        found = js.consumer(stream, consumer)
    except (ConsumerNotFoundError, StreamNotFoundError):
        raise SparkSourceError(
            f"stream {stream!r} has no consumer {consumer!r}; create a durable pull consumer first",
            code="JETSYNC_CONSUMER_NOT_FOUND",
        ) from None
    policy = found.cached_info.config.ack_policy
    if policy != "explicit":
        raise SparkSourceError(
            f"consumer {consumer!r} has ack_policy {policy}: tasks can share only one that is "
            "acknowledged explicitly",
            code="JETSYNC_CONSUMER_NOT_FOUND",
        )
    return found
