"""Positions by the stream leader: where a stream begins and ends, and which messages are gone.

Only answers of the leader count. A replica that lags says "nothing more" while there is more.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetsync import errors as base_errors
from jetsync._counted import counted
from jetsync._log import Log
from jetsync.jetstream.access import stream_meanwhile
from jetsync.kv.backing import prefix_of
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.key_values import no_such_stream, subject_prefix
from jetsync.spark.read_options import ACK, Position, ReadOptions
from jetsync.spark.subjects import common_pattern

if TYPE_CHECKING:
    from jetsync import JetStream, Stream, StreamInfo

__all__ = [
    "Head",
    "check_available",
    "check_filters",
    "first_at_or_after",
    "first_since",
    "first_wanted",
    "head_of",
    "message_at_or_after",
    "open_stream",
    "read_head",
    "resolve_end",
    "resolve_start",
    "stream_names",
    "warn_of_no_streams",
]

log: Log = Log("jetsync.spark")


@dataclass(frozen=True)
class Head:
    """One stream at one moment, as its leader knows it."""

    stream: str
    created: str
    first_seq: int
    last_seq: int
    messages: int
    bytes: int
    # Whether a first_seq beyond our position means that unread messages may have been trimmed.
    trims_unread: bool
    retention: str
    allow_direct: bool
    # How many messages, and seconds, go by until the stream's limits have replaced all it holds.
    keeps_messages: float = math.inf
    keeps_seconds: float = math.inf

    @property
    def has_holes(self) -> bool:
        """Whether some sequences between the first and the last message have none."""
        return self.messages < self.last_seq - self.first_seq + 1


def open_stream(js: JetStream, name: str, meanwhile: Callable[[], object] | None = None) -> Stream:
    """Ask the leader for a stream; ``meanwhile`` is called before its answer is awaited. Blocks.
    Raises ``JETSYNC_STREAM_NOT_FOUND``."""
    try:
        return js.stream(name) if meanwhile is None else stream_meanwhile(js, name, meanwhile)
    except base_errors.StreamNotFoundError:
        raise no_such_stream(name, "stream") from None


def head_of(stream: Stream) -> Head:
    """Return the state that the leader told when the stream was opened. Does not block."""
    info = stream.cached_info
    kept = _kept(info)
    return Head(
        stream=stream.name,
        created=info.created.isoformat(),
        first_seq=info.state.first_seq,
        last_seq=info.state.last_seq,
        messages=info.state.messages,
        bytes=info.state.bytes,
        trims_unread=_trims_unread(info),
        retention=str(info.config.retention),
        allow_direct=info.config.allow_direct,
        keeps_messages=min(kept, default=math.inf),
        keeps_seconds=info.config.max_age or math.inf,
    )


def _kept(info: StreamInfo) -> list[float]:
    """Return what each limit by number or size leaves, in messages of average size, if it removes
    the oldest ones: with ``discard=new`` it refuses new ones instead."""
    config, state = info.config, info.state
    if str(config.discard) != "old":
        return []
    size = state.bytes / max(1, state.messages)
    found = [float(config.max_msgs)] if config.max_msgs > 0 else []
    return [*found, config.max_bytes / size] if config.max_bytes > 0 and size else found


def _trims_unread(info: StreamInfo) -> bool:
    """Tell whether limits of the stream as a whole may have removed its first messages.

    Streams that keep a number per subject, and those that remove on acknowledgement, move their
    first sequence in normal use. That is no sign of loss, unless a limit of the stream as a whole
    is there that removes messages, too.
    """
    config, state = info.config, info.state
    per_subject = config.max_msgs_per_subject
    if str(config.retention) == "limits" and per_subject <= 0:
        return True
    # Full is a stream in which the next message of average size would not fit.
    kept = _kept(info)
    is_full = any(most < state.messages + 1 for most in kept)
    if str(config.retention) != "limits" or per_subject == 1:
        return is_full
    return bool(kept) or bool(config.max_age)


def stream_names(js: JetStream, options: ReadOptions) -> tuple[str, ...]:
    """Return the streams that are read, those of a pattern as there are now. Blocks."""
    if options.stream_pattern is None:
        return options.streams
    pattern = re.compile(fnmatch.translate(options.stream_pattern))
    return tuple(sorted(name for name in js.stream_names() if pattern.match(name)))


def warn_of_no_streams(names: Collection[str], options: ReadOptions) -> None:
    """Log that no stream matches the pattern. Does not block."""
    if not names:
        pattern = options.stream_pattern
        log.warning("streamPattern: %r matches no stream, so it reads nothing", pattern)


def read_head(js: JetStream, name: str) -> Head:
    """Ask the leader for a stream's state. Blocks; raises like :func:`open_stream`."""
    return head_of(open_stream(js, name))


def message_at_or_after(stream: Stream, seq: int, subject: str = ">") -> tuple[int, int] | None:
    """Return (sequence, time in ns) of the first message from ``seq`` on, or None. Blocks.

    Asks ``$JS.API.STREAM.MSG.GET``, which only the stream leader serves.
    """
    try:
        stored = stream.get_msg(max(1, seq), next_by_subject=subject)
    except base_errors.MessageNotFoundError:
        return None
    return stored.seq, stored.time_ns or 0


def first_at_or_after(stream: Stream, seq: int, filters: Sequence[str]) -> int | None:
    """Return the first sequence from ``seq`` on that matches a filter, or None. Blocks."""
    found = [message_at_or_after(stream, seq, subject) for subject in (filters or (">",))]
    return min((item[0] for item in found if item is not None), default=None)


def first_wanted(stream: Stream, created: str, seq: int, options: ReadOptions) -> int | None:
    """Return the first sequence from ``seq`` on that passes the filters, or None. Blocks.

    Raises like :func:`check_available` if the stream has removed messages from ``seq`` on: they may
    have gone before they were looked for.
    """
    found = first_at_or_after(stream, seq, options.filter_subjects)
    if found != seq:
        stream.info()
        check_available(head_of(stream), created, seq, options)
    return found


def check_available(head: Head, created: str, wanted: int, options: ReadOptions) -> int:
    """Return the first sequence that can be read when ``wanted`` is the next one.

    Raises ``JETSYNC_STREAM_RECREATED`` or ``JETSYNC_DATA_LOSS`` if ``failOnDataLoss`` is set;
    else logs a warning and returns the first available sequence. A stream that removes replaced or
    acknowledged messages, and is not full, loses nothing by that unless it is ``strict``.
    """
    if head.created != created:
        if options.fail_on_data_loss:
            raise SparkSourceError(
                f"stream {head.stream!r} was created at {head.created}, but the offset belongs to "
                f"one created at {created}: its sequences mean nothing now. Use a new "
                "checkpointLocation, or failOnDataLoss=false to begin at the first message",
                code="JETSYNC_STREAM_RECREATED",
            )
        log.warning("stream %s was created again; beginning at %d", head.stream, head.first_seq)
        return head.first_seq
    if wanted >= head.first_seq:
        return wanted
    text = (
        f"stream {head.stream!r}: wanted {wanted}, but the first available message is "
        f"{head.first_seq}: "
        + counted(head.first_seq - wanted, "sequence was", "sequences were")
        + " removed unread"
    )
    if options.filter_subjects:
        text += ", and whether one of them passed filterSubjects cannot be known now"
    # Only a limit can remove messages that an anchor holds back.
    is_loss = head.trims_unread or options.strict_data_loss or options.on_commit == ACK
    if not is_loss:
        log.warning("%s, as the stream is set up", text)
        return head.first_seq
    if options.fail_on_data_loss:
        raise SparkSourceError(
            f"{text}. Keep messages longer than the longest outage, or set failOnDataLoss=false "
            "to go on with what is there",
            code="JETSYNC_DATA_LOSS",
        )
    log.warning("%s", text)
    return head.first_seq


def resolve_start(stream: Stream, head: Head, position: Position, options: ReadOptions) -> int:
    """Return the last sequence before the reading begins. Blocks."""
    if position.word == "latest":
        return head.last_seq
    if position.seq is not None:
        return max(0, position.seq - 1)
    if position.time_ns is not None:
        found = first_since(stream, head, position.time_ns)
        if found is not None:
            return found - 1
        if options.starting_timestamp_strategy == "error":
            raise SparkSourceError(
                f"stream {head.stream!r} has no message from startingTimestamp on "
                "(startingTimestampStrategy=error)",
                code="JETSYNC_INVALID_OPTION",
            )
        return head.last_seq
    return max(0, head.first_seq - 1)


def resolve_end(stream: Stream, head: Head, position: Position) -> int:
    """Return the last sequence to read. Blocks."""
    if position.seq is not None:
        return min(position.seq, head.last_seq)
    if position.time_ns is not None:
        beyond = first_since(stream, head, position.time_ns + 1)
        return head.last_seq if beyond is None else beyond - 1
    return head.last_seq


def first_since(stream: Stream, head: Head, time_ns: int) -> int | None:
    """Find the first message at or after a time; None if there is none up to the head. Blocks.

    Looks by halving: the leader's times only grow.
    """
    low, high = head.first_seq, head.last_seq + 1
    while low < high:
        middle = (low + high) // 2
        found = message_at_or_after(stream, middle)
        if found is None or found[0] > head.last_seq or found[1] >= time_ns:
            high = middle
        else:
            low = found[0] + 1
    found = message_at_or_after(stream, low)
    return None if found is None or found[0] > head.last_seq else found[0]


def check_filters(stream: Stream, options: ReadOptions) -> None:
    """Log which filters match no subject of a stream. Does not block.

    Raises ``JETSYNC_INVALID_OPTION`` for a bucket whose keys have other subjects than the filters.
    """
    config = stream.cached_info.config
    if options.bucket is not None:
        _check_keys(options, options.bucket, prefix_of(config))
    if not config.subjects or config.sources or config.mirror or config.subject_transform:
        return
    for subject in options.filter_subjects:
        if not any(common_pattern(subject, own) for own in config.subjects):
            log.warning(
                "filterSubjects: %r matches no subject of stream %s (%s), so it reads nothing",
                subject,
                stream.name,
                ", ".join(config.subjects),
            )


def _check_keys(options: ReadOptions, bucket: str, prefix: str) -> None:
    """Refuse filters by the bucket's own name when it is a mirror, which keeps other subjects."""
    own = subject_prefix(bucket)
    for subject in options.filter_subjects if own != prefix else ():
        if subject.startswith(own):
            raise SparkSourceError(
                f"bucket {bucket!r} is a mirror whose keys have subjects that begin with "
                f"{prefix!r}, so {subject!r} reads nothing: give option "
                f"filterSubjects={prefix}{subject[len(own) :]} instead of keys",
                code="JETSYNC_INVALID_OPTION",
            )
