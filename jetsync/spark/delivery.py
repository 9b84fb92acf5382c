"""The two ways to read the messages of a range: a consumer made for it, or direct gets.

Both give batches in the order of the stream and end when they have nothing more to give, which
proves nothing: see range_read.py. A consumer delivers faster and may have several filters; direct
gets need no set-up, take nothing from a work queue, and are answered by any server that holds the
messages, or only some of them: a replica that lags, or a mirror, which is another stream. What a
mirror answers is not used.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Generator
from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync._log import Log
from jetsync._threads import ThreadPool
from jetsync.errors import Error
from jetsync.jetstream.access import api_of, begin_fetch, last_of
from jetsync.spark.connection import jetstream, shared
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.options import connection_name
from jetsync.spark.positions import Head, head_of
from jetsync.spark.read_options import AUTO, CONSUMER, DIRECT, ReadOptions
from jetsync.spark.task import running_task

if TYPE_CHECKING:
    from concurrent.futures import Future

    from jetsync import Consumer, DirectBatch, JetStreamMsg, MsgBatch, MsgMetadata, Stream
    from jetsync.jetstream.access import PiecewisePull

__all__ = [
    "DIRECT_UP_TO",
    "EarlyConsumer",
    "PartialDeliveryError",
    "by_consumer",
    "by_direct_get",
    "needs_direct",
    "prefers_direct",
    "takes_consumer",
]

log: Log = Log("jetsync.spark")

DIRECT_UP_TO = 10_000
"""Ranges up to so many sequences are read by direct gets where the choice is free: there making
and removing a consumer costs more than the slower delivery. Measured by benchmarks/spark."""

# Reading this many unwanted bytes takes as long as making a consumer.
MOST_UNWANTED = 256 << 10
# Seconds without a pull after which the server removes a consumer, also when this process dies.
INACTIVE_THRESHOLD = 30.0
# How long messages that the consumer said it has are awaited, before the leader is asked.
PULL_TIMEOUT = 2.0
# A piece of a pull is half of what is left of a range. So its rows are converted to Arrow, and
# Spark works on them, while the next ones come, and few are left to convert behind the last one. A
# piece has LEAST_PIECE messages at least, whose conversion takes longer than what each costs.
LEAST_PIECE = 5_000
# The library asks for more in pages of this size, and each may be answered by another server.
DIRECT_PAGE = 8 << 20


def needs_direct(head: Head, options: ReadOptions) -> bool:
    """Tell whether a stream is to be read by direct gets only. Does not block.

    Raises ``JETSYNC_UNSUPPORTED_STREAM`` if the stream does not allow what has to be used.
    """
    takes_away = head.retention == "workqueue"
    if takes_away and options.read_method == CONSUMER:
        raise SparkSourceError(
            f"stream {head.stream!r} is a work queue, and a consumer would take its messages away; "
            "leave option readMethod out",
            code="JETSYNC_UNSUPPORTED_STREAM",
        )
    if not takes_away and options.read_method != DIRECT:
        return False
    if not head.allow_direct:
        why = "a work queue" if takes_away else "a stream with readMethod=direct"
        raise SparkSourceError(
            f"stream {head.stream!r} answers no direct gets, and {why} is read by them only; "
            "update the stream with allow_direct=true",
            code="JETSYNC_UNSUPPORTED_STREAM",
        )
    return True


def prefers_direct(head: Head, options: ReadOptions, length: int, *, headers_only: bool) -> bool:
    """Choose how ``length`` sequences are read where both ways work. Does not block.

    Direct gets always bring the data: where it is large and not wanted, a consumer is better.
    """
    unwanted = head.bytes * length // max(1, head.messages) if headers_only else 0
    return (
        options.read_method == AUTO
        and head.allow_direct
        and length <= DIRECT_UP_TO
        and len(options.filter_subjects) <= 1
        and unwanted <= MOST_UNWANTED
    )


class PartialDeliveryError(Error):
    """The messages are not those of the named stream: another stream answered, or some were
    lost."""


def by_direct_get(
    stream: Stream, options: ReadOptions, subject: str | None, first: int, last: int
) -> Generator[MsgBatch, None, None]:
    """Yield the messages of some server from ``first`` on, until ``last`` was passed. Blocks.

    A request has no upper end. Where it could run beyond ``last``, the messages behind ``last`` are
    counted first, so that no more are asked for than there are up to it. Raises
    ``PartialDeliveryError`` if a mirror answers instead of the stream.
    """
    behind = None
    if _may_overshoot(head_of(stream), subject is not None, last):
        found = _direct_page(stream, options, subject, last + 1, 1)
        behind = 1 + _end_of(found).num_pending if len(found) else 0
    left = 1 if behind is not None else last - first + 1
    with contextlib.ExitStack() as ending:
        thread: ThreadPool | None = None
        coming: Future[DirectBatch] | None = None
        while first <= last and left > 0:
            if coming is None:
                batch = _direct_page(stream, options, subject, first, left)
            else:
                batch = coming.result()
            if not len(batch):
                return
            end = _end_of(batch)
            first = end.stream_seq + 1
            if end.num_pending == 0:
                left = 0
            else:
                left = last - first + 1 if behind is None else end.num_pending - behind
            if first <= last and left > 0:
                if thread is None:
                    thread = ending.enter_context(ThreadPool("spark-read"))
                coming = thread.submit(_direct_page, stream, options, subject, first, left)
            yield batch


def _direct_page(
    stream: Stream, options: ReadOptions, subject: str | None, first: int, count: int
) -> DirectBatch:
    """Get up to ``count`` messages and make sure that the stream itself gave them. Blocks."""
    nc = shared(options.link)
    reconnects = nc.stats.reconnects
    batch = stream.get_msgs(
        first,
        max_messages=min(options.fetch_batch, count),
        max_bytes=min(options.fetch_max_bytes, DIRECT_PAGE),
        subject=subject,
    )
    # One request has one responder; only after a reconnect is there a second request in it.
    whole = len(batch) and nc.stats.reconnects == reconnects
    looked_at = (last_of(batch),) if whole else batch
    for message in looked_at:
        answered = message.metadata.stream
        if answered != stream.name:
            raise PartialDeliveryError(
                f"stream {answered} answered the direct get; it is a mirror and may hold other "
                "messages"
            )
    return batch


def _may_overshoot(head: Head, filtered: bool, last: int) -> bool:
    """Tell whether asking for as many messages as there are sequences may go beyond ``last``."""
    return head.last_seq > last and (filtered or head.has_holes)


def _end_of(batch: MsgBatch) -> MsgMetadata:
    """Return what the last message of a batch says, without an index of all of them."""
    last: JetStreamMsg = last_of(batch)
    return last.metadata


def by_consumer(
    stream: Stream,
    options: ReadOptions,
    first: int,
    last: int,
    *,
    alone: bool,
    headers_only: bool,
    made: EarlyConsumer | None = None,
) -> Generator[MsgBatch, None, None]:
    """Yield the messages of a consumer made for this from ``first`` on, until ``last`` was passed.

    Blocks. A message larger than fetchMaxBytes never comes under that limit: ``alone`` takes the
    first one by itself and without. Raises ``PartialDeliveryError`` if messages were lost on the
    way: the server sends each one once, so after a broken link a new consumer has to begin there.
    """
    behind = 0
    if _may_overshoot(head_of(stream), bool(options.filter_subjects), last):
        # A pull has no upper end: what lies behind the range is counted by a consumer that
        # begins there, and not asked for.
        counter = _consumer_from(stream.name, options, last + 1, headers_only)
        behind = counter.cached_info.num_pending
        _forget(counter, options)
    consumer = None if made is None else made.take(first)
    if consumer is None:
        consumer = _consumer_from(stream.name, options, first, headers_only)
    pull = None
    try:
        left = min(consumer.cached_info.num_pending - behind, last - first + 1)
        expected = 1
        while left > 0 and first <= last:
            if alone:
                batch, alone = consumer.fetch(1, timeout=PULL_TIMEOUT), False
            else:
                pull = pull or _begin(consumer, options, left)
                batch = pull.take(max(left // 2, LEAST_PIECE))
            if not len(batch):
                if pull is None or not pull.has_given:
                    return
                pull = None  # the server has ended it behind its last piece
                continue
            end = _end_of(batch)
            if end.consumer_seq != expected + len(batch) - 1:
                raise PartialDeliveryError(
                    counted(
                        end.consumer_seq - expected + 1 - len(batch),
                        "message was",
                        "messages were",
                    )
                    + " lost on the way"
                )
            expected = end.consumer_seq + 1
            first = end.stream_seq + 1
            left = min(end.num_pending - behind, last - first + 1)
            if pull is not None and pull.is_over:
                # Asked for now, the next messages come while these ones are worked on.
                pull = _begin(consumer, options, left) if left > 0 else None
            yield batch
    finally:
        if pull is not None:
            pull.close()
        _forget(consumer, options)


def _begin(consumer: Consumer, options: ReadOptions, left: int) -> PiecewisePull:
    return begin_fetch(
        consumer,
        min(options.fetch_batch, left),
        max_bytes=options.fetch_max_bytes,
        timeout=PULL_TIMEOUT,
    )


class EarlyConsumer:
    """A consumer that is made before the leader has answered about the stream, which saves a round
    trip. Used by one thread; `close` at the end."""

    def __init__(self, options: ReadOptions, stream: str, first: int, headers_only: bool) -> None:
        self._options = options
        self._stream = stream
        self._first = first
        self._headers_only = headers_only
        self._made: Consumer | None = None
        self._is_tried = False

    def make(self) -> None:
        """Make the consumer, once. Blocks."""
        if self._is_tried:
            return
        self._is_tried = True
        try:
            self._made = _consumer_from(
                self._stream, self._options, self._first, self._headers_only
            )
        except Error as error:
            log.debug("making a consumer early: %s", error)

    def take(self, first: int) -> Consumer | None:
        """Return the consumer if it begins at ``first`` and could be made. Does not block."""
        made, self._made = self._made, None
        if made is not None and first != self._first:
            _forget(made, self._options)
            return None
        return made

    def close(self) -> None:
        """Remove the consumer if it was not taken. Does not block."""
        self.take(0)


def takes_consumer(options: ReadOptions, length: int) -> bool:
    """Tell whether ``length`` sequences are read by a consumer, as far as the options tell."""
    return options.read_method == CONSUMER or (
        options.read_method == AUTO and (length > DIRECT_UP_TO or len(options.filter_subjects) > 1)
    )


def _consumer_from(stream: str, options: ReadOptions, first: int, headers_only: bool) -> Consumer:
    return jetstream(options.link).create_consumer(
        stream,
        name=f"jetsync-spark-{uuid.uuid4().hex}",
        deliver_policy="by_start_sequence",
        opt_start_seq=first,
        ack_policy="none",
        filter_subjects=list(options.filter_subjects) or None,
        mem_storage=True,
        num_replicas=1,
        inactive_threshold=INACTIVE_THRESHOLD,
        headers_only=headers_only,
        metadata=_whose(options),
    )


def _whose(options: ReadOptions) -> dict[str, str] | None:
    """Return what ``nats consumer info`` shall show of the job that made a consumer."""
    query = running_task().query
    found = {
        "jetsync.spark.name": options.link.connection_name or connection_name() or "",
        "jetsync.spark.query": query or "",
    }
    return {key: value for key, value in found.items() if value} or None


def _forget(consumer: Consumer, options: ReadOptions) -> None:
    """Let the server remove the consumer now; no answer is waited for. If the request is lost, the
    server removes the consumer soon by itself."""
    consumer.close()
    try:
        api = api_of(jetstream(options.link))
        subject = api.subject(f"CONSUMER.DELETE.{consumer.stream_name}.{consumer.name}")
        shared(options.link).publish(subject)
    except Error as error:
        log.debug("consumer %s was not removed: %s", consumer.name, error)
