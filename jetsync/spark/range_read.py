"""Reading one range of sequences completely.

The one trap here: a replica that lags says "nothing more" while the leader has more. So a range
is finished only when a message at or beyond its end was seen, or when the stream *leader* says
that nothing lies between. Everything else (an idle consumer, a lost one, a restarted server) means
going on from the next sequence.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline
from jetsync.errors import APIError, ConsumerDeletedError, Error, PullTerminatedError
from jetsync.spark.connection import is_transient, with_patience
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.positions import (
    check_available,
    first_at_or_after,
    head_of,
    open_stream,
    read_head,
)
from jetsync.spark.ranges import SequenceRange
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.schema import Layout

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync import Consumer, JetStream

__all__ = ["read_range"]

log = logging.getLogger("jetsync.spark")

# The server removes a consumer that nobody pulls from after this long, whatever happens to us.
INACTIVE_THRESHOLD = 30.0
# How long a pull waits for messages that the consumer said it has, before the leader is asked.
PULL_TIMEOUT = 2.0
# Between two looks at a consumer that lags behind the leader.
LAG_PAUSE = 0.05
CONSUMER_NOT_FOUND = 10014


def read_range(
    options: ReadOptions, layout: Layout, wanted: SequenceRange
) -> Iterator[pa.RecordBatch]:
    """Yield every message of ``wanted`` that passes the filters, in order, as Spark's batches.

    Blocks. Waits up to ``server_unavailable_timeout`` without progress for servers to come back.
    Raises ``SparkSourceError`` if messages were lost or the stream is another one now.
    """
    return _RangeRead(options, layout, wanted).batches()


class _RangeRead:
    """The state of reading one range: the next sequence that was not seen yet."""

    def __init__(self, options: ReadOptions, layout: Layout, wanted: SequenceRange) -> None:
        self._options = options
        self._layout = layout
        self._range = wanted
        self._next = wanted.first
        self._what = f"reading {wanted.stream} from {wanted.first} to {wanted.last}"

    def batches(self) -> Iterator[pa.RecordBatch]:
        link = self._options.link
        patience = Deadline(link.server_unavailable_timeout)
        stuck = False
        while (found := with_patience(link, self._what, self._continue_at)) is not None:
            before = self._next
            try:
                yield from self._from_consumer(found, stuck)
            except Error as error:
                if not _worth_repeating(error):
                    raise
                log.warning(
                    "%s: %s: %s; going on at %d",
                    self._what,
                    type(error).__name__,
                    error,
                    self._next,
                )
            if self._next > before:
                patience = Deadline(link.server_unavailable_timeout)
                stuck = False
            elif not stuck:
                stuck = True
            elif patience.expired:
                raise SparkSourceError(
                    f"{self._what}: the stream leader has message {found}, but no consumer "
                    f"delivered it within {link.server_unavailable_timeout:g} s",
                    code="JETSYNC_SERVER_UNAVAILABLE",
                )
            else:
                time.sleep(patience.within(LAG_PAUSE))

    def _continue_at(self, js: JetStream) -> int | None:
        """Ask the leader for the next message of the range; None when the range is finished."""
        wanted = self._range
        if self._next > wanted.last:
            return None
        stream = open_stream(js, wanted.stream)
        head = head_of(stream)
        first = check_available(head, wanted.created, self._next, self._options)
        if head.created != wanted.created or first > wanted.last:
            # Only with failOnDataLoss=false: what was planned is gone, and that was accepted.
            return None
        self._next = first
        found = first_at_or_after(stream, first, self._options.filter_subjects)
        return found if found is not None and found <= wanted.last else None

    def _from_consumer(self, start: int, stuck: bool) -> Iterator[pa.RecordBatch]:
        link = self._options.link
        consumer = with_patience(link, self._what, lambda js: self._create(js, start))
        try:
            yield from self._drain(consumer, stuck)
        finally:
            _forget(consumer)

    def _create(self, js: JetStream, start: int) -> Consumer:
        return js.create_consumer(
            self._range.stream,
            name=f"jetsync-spark-{uuid.uuid4().hex}",
            deliver_policy="by_start_sequence",
            opt_start_seq=start,
            ack_policy="none",
            filter_subjects=list(self._options.filter_subjects) or None,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=INACTIVE_THRESHOLD,
        )

    def _drain(self, consumer: Consumer, stuck: bool) -> Iterator[pa.RecordBatch]:
        """Pull until the end of the range was seen or the consumer gives nothing more.

        ``stuck`` says that the last try gave nothing at all. A message larger than fetchMaxBytes
        never comes under that limit, so the first one is then taken alone and without.
        """
        pending = consumer.cached_info.num_pending
        while pending > 0 and self._next <= self._range.last:
            if stuck:
                batch = consumer.fetch(1, timeout=PULL_TIMEOUT)
                stuck = False
            else:
                batch = consumer.fetch(
                    min(self._options.fetch_batch, pending, self._range.last - self._next + 1),
                    max_bytes=self._options.fetch_max_bytes,
                    timeout=PULL_TIMEOUT,
                )
            if not len(batch):
                return
            rows = batch.to_arrow(self._layout.received, text_headers=self._layout.text_headers)
            pending = rows.column("num_pending")[-1].as_py()
            yield from self._accept(rows)

    def _accept(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Check and cut one batch, move on behind it, and give it out."""
        sequences = rows.column("stream_seq")
        self._check_gap(sequences)
        last = sequences[-1].as_py()
        if last > self._range.last:
            rows = rows.slice(0, count_up_to(sequences, self._range.last))
        self._next = last + 1
        if rows.num_rows:
            yield self._layout.convert(rows, self._range.stream)

    def _check_gap(self, sequences: Any) -> None:
        """Look whether sequences that did not come were removed by the stream's limits.

        Holes are normal (deletes, filters). They mean loss only if the head of the stream was
        trimmed beyond them while they were still to be read.
        """
        import pyarrow.compute as pc

        first, last = sequences[0].as_py(), sequences[-1].as_py()
        if first == self._next and last - first + 1 == len(sequences):
            return
        missing = self._next
        if first == self._next:
            jumps = pc.greater(pc.pairwise_diff(sequences), 1)
            missing = sequences[pc.index(jumps, True).as_py() - 1].as_py() + 1
        if missing > self._range.last:
            return
        head = with_patience(
            self._options.link, self._what, lambda js: read_head(js, self._range.stream)
        )
        check_available(head, self._range.created, missing, self._options)


def count_up_to(sequences: Any, last: int) -> int:
    """Return how many of the ascending ``sequences`` are at most ``last``."""
    low, high = 0, len(sequences)
    while low < high:
        middle = (low + high) // 2
        if sequences[middle].as_py() <= last:
            low = middle + 1
        else:
            high = middle
    return low


def _worth_repeating(error: Error) -> bool:
    """Tell whether a new consumer at the next sequence may help."""
    if isinstance(error, (ConsumerDeletedError, PullTerminatedError)):
        return True
    if isinstance(error, APIError) and error.err_code == CONSUMER_NOT_FOUND:
        return True
    return is_transient(error)


def _forget(consumer: Consumer) -> None:
    """Remove the consumer now; if that fails the server does it soon."""
    try:
        consumer.delete(timeout=1.0)
    except Error as error:
        log.debug("consumer %s was not removed: %s", consumer.name, error)
