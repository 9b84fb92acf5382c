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
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync._log import Log
from jetsync._threads import ThreadPool
from jetsync.client.port import port_of
from jetsync.errors import Error
from jetsync.jetstream.access import api_of, last_of
from jetsync.spark.connection import jetstream, shared
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.options import connection_name
from jetsync.spark.positions import Head, head_of
from jetsync.spark.read_options import AUTO, CONSUMER, DIRECT, ReadOptions
from jetsync.spark.task import running_task

if TYPE_CHECKING:
    from jetsync import Consumer, DirectBatch, JetStreamMsg, MsgBatch, MsgMetadata, Stream

__all__ = [
    "DIRECT_UP_TO",
    "EarlyConsumer",
    "PartialDeliveryError",
    "by_consumer",
    "by_direct_get",
    "needs_direct",
    "one_ahead",
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
# How long a pull waits for messages that the consumer said it has, before the leader is asked.
PULL_TIMEOUT = 2.0
# A pull takes half of what is left of a range. So its rows are converted to Arrow, and Spark works
# on them, while the next pull is received, and little is left to convert after the last one. A pull
# asks for LEAST_PULL messages at least, and for what a stream delivers in 20 round trips (some
# 200,000 messages a second): in the round trip between two pulls nothing is received.
LEAST_PULL = 10_000
PULL_PER_SECOND = 4_000_000
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
    while first <= last and left > 0:
        batch = _direct_page(stream, options, subject, first, left)
        if not len(batch):
            return
        yield batch
        end = _end_of(batch)
        if end.num_pending == 0:
            return
        first = end.stream_seq + 1
        left = last - first + 1 if behind is None else end.num_pending - behind


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
    try:
        # Not the usual round trip: the answer to a PING waits behind the messages of a pull.
        round_trip = port_of(shared(options.link)).round_trip.least
        least = max(LEAST_PULL, int(PULL_PER_SECOND * round_trip))
        left = min(consumer.cached_info.num_pending - behind, last - first + 1)
        expected = 1
        while left > 0 and first <= last:
            if alone:
                batch = consumer.fetch(1, timeout=PULL_TIMEOUT)
                alone = False
            else:
                batch = consumer.fetch(
                    min(options.fetch_batch, left // 2 if left >= 2 * least else left),
                    max_bytes=options.fetch_max_bytes,
                    timeout=PULL_TIMEOUT,
                )
            if not len(batch):
                return
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
            yield batch
            first = end.stream_seq + 1
            left = min(end.num_pending - behind, last - first + 1)
    finally:
        _forget(consumer, options)


class EarlyConsumer:
    """A consumer that is made while the leader answers about the stream, which saves a round trip.
    Used by one thread, and made on ``thread``; `close` at the end."""

    def __init__(
        self,
        thread: ThreadPool,
        stream: str,
        options: ReadOptions,
        first: int,
        headers_only: bool,
    ) -> None:
        self._options = options
        self._first = first
        self._coming: Future[Consumer] | None = thread.submit(
            _consumer_from, stream, options, first, headers_only
        )

    def take(self, first: int) -> Consumer | None:
        """Return the consumer if it begins at ``first`` and could be made. Blocks until then."""
        coming, self._coming = self._coming, None
        if coming is None:
            return None
        try:
            consumer = coming.result()
        except Error as error:
            log.debug("making a consumer early: %s", error)
            return None
        if first == self._first:
            return consumer
        _forget(consumer, self._options)
        return None

    def close(self) -> None:
        """Remove the consumer if it was not taken. Blocks while it is being made."""
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


def one_ahead(
    batches: Generator[MsgBatch, None, None], thread: ThreadPool
) -> Generator[MsgBatch, None, None]:
    """Yield the batches; ``thread``, a pool of one thread, gets the next one meanwhile."""
    with contextlib.closing(batches):
        coming = thread.submit(next, batches, None)
        try:
            while (batch := coming.result()) is not None:
                coming = thread.submit(next, batches, None)
                yield batch
        finally:
            wait([coming])
