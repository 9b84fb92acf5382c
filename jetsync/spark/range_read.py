"""Reading one range of sequences completely.

A replica that lags says "nothing more" while the leader has more. So a range is finished only when
a message at or beyond its end was seen, or when the stream *leader* says that nothing lies between.
Everything else (an idle consumer, a lost one, a restarted server) means going on from the next
sequence.

A direct get may be answered by a replica that is behind or ahead in removing old messages. So what
seems to be missing in such an answer is compared with the leader too.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline
from jetsync._log import Log
from jetsync.errors import (
    ApiLevelRequiredError,
    ConsumerDeletedError,
    ConsumerNotFoundError,
    Error,
    PullTerminatedError,
    StreamNotFoundError,
)
from jetsync.spark.connection import coded, heard_from, is_transient, with_patience
from jetsync.spark.delivery import (
    EarlyConsumer,
    PartialDeliveryError,
    by_consumer,
    by_direct_get,
    needs_direct,
    prefers_direct,
    takes_consumer,
)
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.positions import (
    check_available,
    first_at_or_after,
    first_wanted,
    head_of,
    open_stream,
)
from jetsync.spark.ranges import SequenceRange
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.schema import Layout
from jetsync.spark.subjects import matching_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from jetsync import JetStream, MsgBatch, Stream

__all__ = ["read_range"]

log: Log = Log("jetsync.spark")

# Errors after which the other way of delivery serves: a mirror has answered, or the server is older
# than 2.11.
_EXPECTED = (PartialDeliveryError, ApiLevelRequiredError)
# Seconds between two reads of a replica that lags behind the leader.
LAG_DELAY = 0.05


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
        self._direct = False
        # Direct gets were chosen here and brought nothing.
        self._left_direct = False
        # The leader is asked whether something is left from the second attempt on.
        self._asked_leader = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._range.only_direct or not takes_consumer(self._options, len(self._range)):
            yield from self._batches(None)
            return
        headers_only = not self._layout.wants_content
        with contextlib.closing(
            EarlyConsumer(self._options, self._range.stream, self._next, headers_only)
        ) as made:
            yield from self._batches(made)

    def _batches(self, made: EarlyConsumer | None) -> Iterator[pa.RecordBatch]:
        link = self._options.link
        patience = Deadline(link.server_unavailable_timeout)
        stuck = False
        unfinished = partial(self._not_finished, made=made)
        while (stream := with_patience(link, self._what, unfinished)) is not None:
            before = self._next
            try:
                with contextlib.closing(self._deliver(stream, stuck, made)) as batches:
                    for batch in batches:
                        yield from self._accept(batch)
            except Error as error:
                if not (self._may_leave_direct(stream) or _worth_repeating(error)):
                    raise coded(error, self._what) from None
                log.log(
                    logging.INFO if isinstance(error, _EXPECTED) else logging.WARNING,
                    "%s: %s: %s; going on at %d",
                    self._what,
                    type(error).__name__,
                    error,
                    self._next,
                )
            if self._next > before:
                patience = Deadline(link.server_unavailable_timeout)
                stuck = False
            elif self._may_leave_direct(stream):
                self._left_direct = True
            elif not stuck:
                stuck = True
            elif patience.expired:
                raise SparkSourceError(
                    f"{self._what}: the stream leader has messages from {self._next} on, but "
                    f"no server delivered them within {link.server_unavailable_timeout:g} s",
                    code="JETSYNC_SERVER_UNAVAILABLE",
                )
            else:
                time.sleep(patience.within(LAG_DELAY))

    def _not_finished(self, js: JetStream, made: EarlyConsumer | None) -> Stream | None:
        """Ask the leader whether there is more of the range; None when it is finished. The consumer
        is ``made`` at the same time."""
        wanted = self._range
        is_over = self._next > wanted.last
        if is_over and not self._direct:
            return None
        early = None if made is None or self._asked_leader else made.make
        stream = open_stream(js, wanted.stream, early)
        head = head_of(stream)
        if is_over:
            # A consumer goes with its stream, but a direct get is answered by any that has the
            # name: make sure that it was this one all the time.
            check_available(head, wanted.created, head.first_seq, self._options)
            return None
        first = check_available(head, wanted.created, self._next, self._options)
        if head.created != wanted.created or first > wanted.last:
            # Only with failOnDataLoss=false: what was planned is gone, and that was accepted.
            return None
        self._next = first
        if not self._asked_leader:
            # Nearly every range has messages: the first one that delivers will show.
            self._asked_leader = True
            return stream
        found = first_wanted(stream, wanted.created, first, self._options)
        return stream if found is not None and found <= wanted.last else None

    # -- which server delivers ---------------------------------------------------------------------

    def _deliver(
        self, stream: Stream, stuck: bool, made: EarlyConsumer | None
    ) -> Generator[MsgBatch, None, None]:
        head = head_of(stream)
        headers_only = not self._layout.wants_content
        self._direct = needs_direct(head, self._options) or (
            not self._left_direct
            and prefers_direct(head, self._options, len(self._range), headers_only=headers_only)
        )
        if self._direct:
            subject = next(iter(self._asked), None)
            return by_direct_get(stream, self._options, subject, self._next, self._range.last)
        return by_consumer(
            stream,
            self._options,
            self._next,
            self._range.last,
            alone=stuck,
            headers_only=headers_only,
            made=made,
        )

    @property
    def _filters_here(self) -> bool:
        """Whether the filters are applied here: a direct get has room for one only."""
        return self._direct and len(self._options.filter_subjects) > 1

    @property
    def _asked(self) -> tuple[str, ...]:
        """The filters that the server applies."""
        return () if self._filters_here else self._options.filter_subjects

    def _may_leave_direct(self, stream: Stream) -> bool:
        return self._direct and not needs_direct(head_of(stream), self._options)

    # -- what was delivered --------------------------------------------------------------------

    def _accept(self, batch: MsgBatch) -> Iterator[pa.RecordBatch]:
        """Check and cut one batch, move on behind it, and give it out."""
        heard_from(self._options.link)
        columns = {*self._layout.received, *(("subject",) if self._filters_here else ())}
        rows = batch.to_arrow(
            sorted(columns),
            text_headers=self._layout.text_headers,
            microseconds=self._layout.microseconds,
        )
        sequences = rows.column("stream_seq")
        self._check_gap(sequences)
        last = sequences[-1].as_py()
        if last > self._range.last:
            rows = rows.slice(0, count_up_to(sequences, self._range.last))
        self._next = last + 1
        if self._filters_here:
            rows = matching_rows(rows, self._options.filter_subjects)
        if rows.num_rows:
            yield self._layout.convert(rows, self._range.stream)

    def _check_gap(self, sequences: Any) -> None:
        """Find out why the first missing sequences did not come.

        Holes are normal (deletes, filters). They mean loss only if the head of the stream was
        trimmed beyond them while they were still to be read; and behind a direct get there may be
        a mirror that never had them.
        """
        gap = first_gap(self._next, sequences)
        if gap is None or gap[0] > self._range.last:
            return
        held = with_patience(
            self._options.link, self._what, lambda js: self._leader_holds(js, *gap)
        )
        if held is not None:
            raise PartialDeliveryError(
                f"the leader has {held}, the server that answered the direct get has not"
            )

    def _leader_holds(self, js: JetStream, missing: int, after: int) -> int | None:
        """Return a sequence from ``missing`` to ``after`` that should have come. Blocks."""
        stream = open_stream(js, self._range.stream)
        check_available(head_of(stream), self._range.created, missing, self._options)
        if not self._direct:
            return None
        found = first_at_or_after(stream, missing, self._asked)
        return found if found is not None and found < after else None


def first_gap(wanted: int, sequences: Any) -> tuple[int, int] | None:
    """Return the first sequence from ``wanted`` on that is missing, and the next one that is not.

    None if the ascending ``sequences`` are ``wanted`` and its successors.
    """
    import pyarrow.compute as pc

    first, last = sequences[0].as_py(), sequences[-1].as_py()
    if first > wanted:
        return wanted, first
    if last - first + 1 == len(sequences):
        return None
    jump = pc.index(pc.greater(pc.pairwise_diff(sequences), 1), True).as_py()
    return sequences[jump - 1].as_py() + 1, sequences[jump].as_py()


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
    """Tell whether a new consumer at the next sequence, or asking once more, may help."""
    if isinstance(error, (ConsumerDeletedError, PullTerminatedError, PartialDeliveryError)):
        return True
    if isinstance(error, (ConsumerNotFoundError, StreamNotFoundError)):
        # Whether it is the stream that is gone will be seen when the leader is asked.
        return True
    return is_transient(error)
