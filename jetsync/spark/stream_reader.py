"""Streaming reads: offsets on the driver, ranges on the executors.

One long-lived process on the driver calls everything here but ``read``. Spark ends a query on the
first exception, calls ``initialOffset`` more than once, may never call ``stop``, and asks for the
latest offset in a tight loop when there is nothing to do.
"""

# pyspark is optional, so its base classes are unknown where it is not installed.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from jetsync._log import Log
from jetsync.errors import Error
from jetsync.spark.connection import together, with_each, with_patience
from jetsync.spark.delivery import needs_direct
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.ids import short_hash
from jetsync.spark.offsets import Offset, StreamOffset
from jetsync.spark.positions import (
    Head,
    check_available,
    check_filters,
    first_wanted,
    head_of,
    open_stream,
    resolve_start,
    stream_names,
    warn_of_no_streams,
)
from jetsync.spark.ranges import SequenceRange, limit_heads, split_ranges
from jetsync.spark.read_options import LATEST, NONE, ReadOptions
from jetsync.spark.reader import RangePartition, read_partition
from jetsync.spark.releasing import prepare, release
from jetsync.spark.schema import check_schema
from jetsync.spark.sentences import sentence_first
from jetsync.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from jetsync import JetStream, Stream

__all__ = ["JetStreamStreamReader"]

T = TypeVar("T")

# A skipped part of a stream is written into the checkpoint when it is so long, or such a share of
# what the stream's limits keep; or after the time of option noteSkippedAfter.
NOTED_AFTER_SEQUENCES = 10_000
NOTED_SHARE = 0.1

log: Log = Log("jetsync.spark")


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams in micro-batches. Picklable; what it remembers serves its own process only."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema, bucket=options.bucket is not None)
        self._options = options
        self._schema = schema
        self._initial: dict[str, Any] | None = None
        self._prepared: set[str] = set()
        self._heads: dict[str, Head] = {}
        self._asked_at = float("-inf")
        # The end of the batch that was chosen last, and the heads that it was chosen with.
        self._planned: tuple[dict[str, Any], dict[str, Head]] = {}, {}
        self._frozen: dict[str, StreamOffset] | None = None
        # Per stream: nothing that passes the filters lies from the last start up to here.
        self._scanned: dict[str, StreamOffset] = {}
        # Per stream: the reported end; where nothing is left to read, the position reached.
        self._told: dict[str, StreamOffset] = {}
        self._filters = short_hash(",".join(sorted(options.filter_subjects)))
        self._warned = False
        self._last_batch_at = self._noted_at = time.monotonic()

    # -- offsets (driver) ----------------------------------------------------------------------

    @sentence_first
    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins; always the same in one process. Blocks."""
        if self._initial is None:
            starts = self._ask_each(self._start_of)
            warn_of_no_streams(starts, self._options)
            self._initial = Offset.initial(starts, self._filters).to_dict()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark hands back to ``latestOffset``."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @sentence_first
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch, or ``start`` itself if there is nothing to read.

        Blocks up to ``pollInterval`` when asked again too soon, and up to
        ``serverUnavailableTimeout`` while no server answers. Raises if messages were lost.
        """
        offset = Offset.from_dict(start)
        self._compare_filters(offset)
        time.sleep(max(0.0, self._asked_at + self._options.poll_interval - time.monotonic()))
        waiting = self._ask_each(partial(self._waiting, offset))
        heads = self._heads
        begins = {name: item.begin for name, item in waiting.items()}
        ends = self._limited(begins, {name: item.end for name, item in waiting.items()}, limit)
        streams = self._left_out(offset)
        streams.update((name, StreamOffset(ends[name], heads[name].created)) for name in heads)
        is_batch = streams != dict(offset.streams) and (
            ends != begins or any(item.is_due for item in waiting.values())
        )
        reached = streams if is_batch else offset.streams
        for name, item in waiting.items():
            head = StreamOffset(heads[name].last_seq, heads[name].created)
            self._told[name] = head if item.begin < item.end else reached[name]
        if not is_batch:
            return start
        self._noted_at = time.monotonic()
        if ends != begins:
            self._last_batch_at = self._noted_at
        jumps = {
            name: begin
            for name, begin in begins.items()
            if offset.streams.get(name) != StreamOffset(begin, heads[name].created)
        }
        batch_end = offset.advanced(streams, jumps, self._filters).to_dict()
        self._planned = batch_end, heads
        return batch_end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the head of the streams as last seen; Spark shows it in the progress.

        For a query that has read all there is for it, this is where it stands: what its filters
        leave out is not behind.
        """
        if not self._heads:
            return None
        told = {
            name: self._told.get(name, StreamOffset(head.last_seq, head.created))
            for name, head in self._heads.items()
        }
        return Offset(told).to_dict()

    @sentence_first
    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the head: this run reads no further. Blocks."""
        self._frozen = self._ask_each(lambda _, head: StreamOffset(head.last_seq, head.created))

    # -- batches -------------------------------------------------------------------------------

    @sentence_first
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut the batch between two offsets into ranges. Blocks; runs on the driver."""
        before, after = Offset.from_dict(start), Offset.from_dict(end)
        begins = {name: batch_begin(before, after, name) for name in after.streams}
        names = [name for name, reached in after.streams.items() if begins[name] < reached.seq]
        planned, heads = self._planned
        if end != planned:
            heads = self._ask_heads(names)
        # Else the end was chosen with these heads just now, and each task asks before it reads.
        ranges = []
        for name in names:
            reached, begin, head = after.streams[name], begins[name], heads[name]
            check_available(head, reached.created, begin + 1, self._options)
            if head.created == reached.created:
                # From the offsets alone, whatever the stream has lost: a repeated batch has the
                # same partitions, on which the message ids of a sink depend.
                ranges.append(
                    SequenceRange(
                        name,
                        reached.created,
                        begin + 1,
                        reached.seq,
                        only_direct=needs_direct(head, self._options),
                    )
                )
        pieces = split_ranges(
            ranges,
            max_records=self._options.max_records_per_partition,
            min_partitions=self._options.min_partitions,
            filters=self._options.partition_filters,
        )
        return [RangePartition(piece) for piece in pieces]

    @sentence_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition on an executor."""
        return read_partition(self._options, self._schema, partition)

    @sentence_first
    def commit(self, end: dict[str, Any]) -> None:
        """Give up what is done, as ``onCommit`` says; positions live in the checkpoint. Blocks.

        A failure does not end the query, it is logged: a later commit does what this one could not.
        """
        if self._options.on_commit == NONE:
            return
        offset = Offset.from_dict(end)
        left_out = self._left_out(offset)
        done = {name: at for name, at in offset.streams.items() if name not in left_out}
        together(done, lambda name: self._release(name, done[name]))

    def _release(self, name: str, reached: StreamOffset) -> None:
        try:
            with_patience(
                self._options.link,
                f"onCommit of {name} up to {reached.seq}",
                lambda js: release(js, name, reached, self._options),
            )
        except Error as error:
            log.warning("onCommit of %s up to %d: %s", name, reached.seq, error)

    def stop(self) -> None:
        """Do nothing: the process goes away, and an anchor has to outlive it."""

    # -- helpers -------------------------------------------------------------------------------

    def _ask_each(self, action: Callable[[Stream, Head], T]) -> dict[str, T]:
        """Ask every stream for its head, all at the same time, and ``action`` about it. Blocks."""
        names = with_patience(
            self._options.link, "planning streams", partial(stream_names, options=self._options)
        )
        found = with_each(self._options.link, "planning", names, partial(self._look, action))
        self._heads = {name: head for name, (head, _) in found.items()}
        self._asked_at = time.monotonic()
        return {name: answer for name, (_, answer) in found.items()}

    def _ask_heads(self, names: Sequence[str]) -> dict[str, Head]:
        look = partial(self._look, lambda _, head: head)
        found = with_each(self._options.link, "planning", names, look)
        return {name: head for name, (head, _) in found.items()}

    def _look(
        self, action: Callable[[Stream, Head], T], name: str, js: JetStream
    ) -> tuple[Head, T]:
        stream = open_stream(js, name)
        head = head_of(stream)
        if name not in self._prepared:
            needs_direct(head, self._options)
            check_filters(stream, self._options)
            prepare(stream, self._options)
            self._prepared.add(name)
        return head, action(stream, head)

    def _start_of(self, stream: Stream, head: Head) -> StreamOffset:
        position = self._options.start_of(head.stream)
        return StreamOffset(resolve_start(stream, head, position, self._options), head.created)

    def _target(self, head: Head) -> int:
        """Return how far this run may read: the head, or the frozen one of AvailableNow."""
        if self._frozen is None:
            return head.last_seq
        frozen = self._frozen.get(head.stream)
        if frozen is None or frozen.created != head.created:
            return 0
        return min(head.last_seq, frozen.seq)

    def _waiting(self, offset: Offset, stream: Stream, head: Head) -> _Waiting:
        """Return what is there to read of one stream after ``offset``."""
        reached = offset.streams.get(head.stream)
        if reached is None:
            # A stream that was added to the options of an existing query.
            begin = self._start_of(stream, head).seq
            if self._options.stream_pattern and self._options.start_of(head.stream).word == LATEST:
                # It was made while the query runs: all of it came after the start.
                begin = head.first_seq - 1
            return _Waiting(begin, max(begin, self._target(head)), True)
        if head.created == reached.created:
            self._check_not_backwards(offset, head, reached)
        scanned = self._scanned.get(head.stream)
        known = reached.seq
        if scanned is not None and scanned.created == reached.created:
            known = max(known, scanned.seq)
        first = check_available(head, reached.created, known + 1, self._options)
        begin = first - 1
        end = max(begin, self._target(head))
        if begin < end and (self._options.filter_subjects or head.has_holes):
            found = first_wanted(stream, head.created, first, self._options)
            begin = end if found is None or found > end else found - 1
        self._scanned[head.stream] = StreamOffset(begin, head.created)
        return _Waiting(begin, end, self._is_due(head, reached, begin))

    def _is_due(self, head: Head, reached: StreamOffset, begin: int) -> bool:
        """Tell whether what was skipped is to be written into an offset now, be there rows or not.

        What the filters leave out, and what is deleted, needs no batch. But a restart knows no more
        than the checkpoint, and takes for lost what has gone behind the position that it names.
        """
        if head.created != reached.created or head.first_seq > reached.seq + 1:
            return True
        if begin == reached.seq:
            return False
        most = min(NOTED_AFTER_SEQUENCES, head.keeps_messages * NOTED_SHARE)
        longest = min(self._options.note_skipped_after, head.keeps_seconds * NOTED_SHARE)
        return (
            self._frozen is not None
            or begin - reached.seq >= most
            or time.monotonic() - self._noted_at >= longest
        )

    def _left_out(self, offset: Offset) -> dict[str, StreamOffset]:
        """Return the streams that the query has read and that its options name no more.

        They stay in the checkpoint, so one that is named again goes on where it was left. Those of
        a pattern come and go by themselves, and are forgotten.
        """
        if self._options.stream_pattern is not None:
            return {}
        named = self._options.streams
        return {name: reached for name, reached in offset.streams.items() if name not in named}

    def _compare_filters(self, offset: Offset) -> None:
        if offset.filters in ("", self._filters) or self._warned:
            return
        self._warned = True
        log.warning(
            "filterSubjects are not those of the checkpoint: what earlier batches left out is not "
            "read now, and a batch that is repeated has other rows"
        )

    def _check_not_backwards(self, offset: Offset, head: Head, reached: StreamOffset) -> None:
        start = self._options.start_of(head.stream).seq
        if head.last_seq >= reached.seq or (offset.is_beginning and start == reached.seq + 1):
            # A new query may name a sequence that is yet to come.
            return
        text = (
            f"stream {head.stream!r} was read up to {reached.seq}, but now ends at "
            f"{head.last_seq}: it lost messages, or an older copy was restored"
        )
        if self._options.fail_on_data_loss:
            raise SparkSourceError(
                f"{text}. Use a new checkpointLocation, or failOnDataLoss=false to wait until it "
                "has grown beyond that",
                code="JETSYNC_DATA_LOSS",
            )
        log.warning("%s", text)

    def _limited(
        self, begins: Mapping[str, int], ends: dict[str, int], limit: ReadLimit
    ) -> Mapping[str, int]:
        """Return how far to read by the options that make batches smaller or rarer."""
        if isinstance(limit, ReadAllAvailable):
            return ends
        total = sum(ends[name] - begins[name] for name in ends)
        if not total:
            return ends
        least = self._options.min_offsets_per_trigger
        if least is not None and total < least and self._frozen is None:
            waited = time.monotonic() - self._last_batch_at
            if waited < self._options.max_trigger_delay:
                return begins
        budgets = [self._options.max_offsets_per_trigger]
        if self._options.max_bytes_per_trigger is not None:
            budgets.append(self._affordable(self._options.max_bytes_per_trigger))
        return limit_heads(begins, ends, min((b for b in budgets if b is not None), default=None))

    def _affordable(self, max_bytes: int) -> int | None:
        """Return how many messages of average size fit, at least one."""
        messages = sum(head.messages for head in self._heads.values())
        size = sum(head.bytes for head in self._heads.values())
        return max(1, max_bytes * messages // size) if size else None


@dataclass(frozen=True)
class _Waiting:
    """The part of one stream to read: the sequences after ``begin`` up to ``end``."""

    begin: int
    end: int
    is_due: bool
    """Whether ``begin`` is worth an empty batch."""


def batch_begin(before: Offset, after: Offset, name: str) -> int:
    """Return the last sequence before a batch: the pinned one if there is, else Spark's start."""
    if name in after.base:
        return after.base[name]
    reached = before.streams.get(name)
    if reached is None or reached.created != after.streams[name].created:
        raise SparkSourceError(
            f"the offsets of a batch do not fit together for stream {name!r}; use a new "
            "checkpointLocation",
            code="JETSYNC_INVALID_OFFSET",
        )
    return reached.seq
