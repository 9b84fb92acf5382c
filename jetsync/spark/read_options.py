"""Options of the source: which stream, from where to where, and in pieces of what size."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.key_values import check_bucket, stream_of, subject_prefix
from jetsync.spark.options import LinkOptions, Values
from jetsync.spark.subjects import common_pattern

__all__ = [
    "ACK",
    "AUTO",
    "CONSUMER",
    "DIRECT",
    "EARLIEST",
    "LATEST",
    "NONE",
    "PURGE",
    "READ_OPTIONS",
    "Position",
    "ReadOptions",
]

READ_OPTIONS = (
    "stream",
    "streamPattern",
    "bucket",
    "keys",
    "filterSubjects",
    "partitionByFilter",
    "startingOffsets",
    "startingTimestamp",
    "startingTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "pollInterval",
    "noteSkippedAfter",
    "readMethod",
    "fetchBatch",
    "fetchMaxBytes",
    "failOnDataLoss",
    "onCommit",
    "anchorConsumer",
    "includeHeaders",
    "columns",
    "pushFilters",
)

_BATCH_ONLY = ("endingOffsets", "endingTimestamp", "pushFilters")
_STREAM_ONLY = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "pollInterval",
    "noteSkippedAfter",
    "onCommit",
    "anchorConsumer",
)

EVERY = "*"
"""Stands for the streams that a pattern finds, where positions are kept by stream."""

EARLIEST = "earliest"
LATEST = "latest"
# Option readMethod.
AUTO, DIRECT, CONSUMER = "auto", "direct", "consumer"
# Option onCommit.
NONE, PURGE, ACK = "none", "purge", "ack"
_KAFKA_WORDS = {-2: EARLIEST, -1: LATEST}


@dataclass(frozen=True)
class Position:
    """A place in a stream: ``earliest``, ``latest``, a sequence, or a point in time.

    Exactly one of the three fields is set. As a start it names the first message to read, as an
    end the last one.
    """

    word: str | None = None
    seq: int | None = None
    time_ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The checked options of one read. Picklable; the only thing that travels to executors."""

    link: LinkOptions
    streams: tuple[str, ...]
    stream_pattern: str | None = None
    bucket: str | None = None
    filter_subjects: tuple[str, ...] = ()
    partition_by_filter: bool = False
    starting: Mapping[str, Position] = field(default_factory=dict)
    ending: Mapping[str, Position] = field(default_factory=dict)
    starting_timestamp_strategy: str = LATEST
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: float = 900.0
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    poll_interval: float = 0.2
    note_skipped_after: float = 60.0
    fetch_batch: int = 50_000
    fetch_max_bytes: int = 16 << 20
    fail_on_data_loss: bool = True
    strict_data_loss: bool = False
    include_headers: bool = True
    columns: tuple[str, ...] = ()
    read_method: str = AUTO
    push_filters: bool = False
    on_commit: str = NONE
    anchor_consumer: str | None = None

    @property
    def partition_filters(self) -> tuple[str, ...]:
        """The filters of which each is read by a task of its own, if that is asked for."""
        return self.filter_subjects if self.partition_by_filter else ()

    def start_of(self, stream: str) -> Position:
        """Return where the reading of a stream starts."""
        return self.starting.get(stream) or self.starting[EVERY]

    def end_of(self, stream: str) -> Position:
        """Return where the reading of a stream ends."""
        return self.ending.get(stream) or self.ending[EVERY]

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
        """Check every option of a read. Raises ``SparkOptionError``; never connects."""
        use = "streaming reads" if streaming else "batch reads"
        other = _BATCH_ONLY if streaming else _STREAM_ONLY
        elsewhere = {"batch reads" if streaming else "streaming reads": other}
        names = [name for name in READ_OPTIONS if name not in other]
        values = Values(options, names, use, elsewhere)
        streams, pattern, bucket = _streams(values)
        least = values.optional_integer("minOffsetsPerTrigger")
        most = values.optional_integer("maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise values.invalid("minOffsetsPerTrigger", f"<= maxOffsetsPerTrigger ({most})")
        places = streams or (EVERY,)
        starting = _positions(values, "starting", places, batch=not streaming)
        ending = _positions(values, "ending", places, batch=True) if not streaming else {}
        filters = _filters(values, bucket)
        by_filter = values.flag("partitionByFilter", False)
        if by_filter and not filters:
            raise values.invalid("partitionByFilter", "used together with filterSubjects")
        for name in ending:
            _check_order(name, starting.get(name) or starting[EVERY], ending[name])
        on_commit, anchor = _on_commit(values, starting)
        loss = values.choice("failOnDataLoss", "true", ("true", "false", "strict"))
        return cls(
            link=LinkOptions.from_values(values),
            streams=streams,
            stream_pattern=pattern,
            bucket=bucket,
            filter_subjects=filters,
            partition_by_filter=by_filter,
            starting=starting,
            ending=ending,
            starting_timestamp_strategy=values.choice(
                "startingTimestampStrategy", LATEST, (LATEST, "error")
            ),
            max_offsets_per_trigger=most,
            max_bytes_per_trigger=(
                values.size("maxBytesPerTrigger", 0) if values.text("maxBytesPerTrigger") else None
            ),
            min_offsets_per_trigger=least,
            max_trigger_delay=values.seconds("maxTriggerDelay", 900.0),
            min_partitions=values.optional_integer("minPartitions", least=0),
            max_records_per_partition=values.optional_integer("maxRecordsPerPartition"),
            poll_interval=values.seconds("pollInterval", 0.2),
            note_skipped_after=values.seconds("noteSkippedAfter", 60.0),
            fetch_batch=values.integer("fetchBatch", 50_000, least=1),
            fetch_max_bytes=values.size("fetchMaxBytes", 16 << 20),
            fail_on_data_loss=loss != "false",
            strict_data_loss=loss == "strict",
            include_headers=values.flag("includeHeaders", True),
            columns=values.names("columns"),
            read_method=values.choice("readMethod", AUTO, (AUTO, DIRECT, CONSUMER)),
            push_filters=values.flag("pushFilters", False),
            on_commit=on_commit,
            anchor_consumer=anchor,
        )


def _streams(values: Values) -> tuple[tuple[str, ...], str | None, str | None]:
    """Return the streams that are named, or the pattern of their names, and the bucket if any."""
    given = [name for name in ("stream", "streamPattern", "bucket") if values.text(name)]
    if len(given) > 1:
        raise SparkOptionError(
            f"options {' and '.join(given)} exclude each other", code="JETSYNC_OPTION_CONFLICT"
        )
    pattern = values.text("streamPattern")
    if pattern is not None:
        if re.search(r"[\s.>]", pattern):
            raise SparkOptionError(
                f"no stream can match streamPattern {pattern!r}: names of streams have no blanks, "
                "dots or '>'; it is no regular expression, * stands for any characters and ? for "
                "one, as in ORDERS_*",
                code="JETSYNC_INVALID_OPTION",
            )
        return (), pattern, None
    bucket = values.text("bucket")
    if bucket is not None:
        return (stream_of(check_bucket(bucket)),), None, bucket
    values.required("stream")
    streams = tuple(dict.fromkeys(values.names("stream")))
    for name in streams:
        _check_name("stream", name)
    return streams, None, None


def _check_name(option: str, name: str) -> None:
    if re.search(r"[\s.*>/\\]", name):
        raise SparkOptionError(
            f"option '{option}': {name!r} is not a name (no blanks, dots, wildcards or "
            "slashes); a subject belongs into 'filterSubjects'",
            code="JETSYNC_INVALID_OPTION",
        )


def _on_commit(values: Values, starting: Mapping[str, Position]) -> tuple[str, str | None]:
    chosen = values.choice("onCommit", NONE, (NONE, PURGE, ACK))
    anchor = values.text("anchorConsumer")
    if chosen == ACK and anchor is None:
        raise SparkOptionError(
            "onCommit=ack needs option 'anchorConsumer': the name of a durable consumer that no "
            "other query uses",
            code="JETSYNC_MISSING_OPTION",
        )
    if anchor is not None:
        if chosen != ACK:
            raise SparkOptionError(
                "option 'anchorConsumer' goes together with onCommit=ack only",
                code="JETSYNC_OPTION_CONFLICT",
            )
        _check_name("anchorConsumer", anchor)
    if chosen == PURGE and any(where.word != EARLIEST for where in starting.values()):
        raise SparkOptionError(
            "onCommit=purge removes everything up to what was read, so also what lies before a "
            "start behind the first message; leave startingOffsets and startingTimestamp out",
            code="JETSYNC_OPTION_CONFLICT",
        )
    return chosen, anchor


def _filters(values: Values, bucket: str | None) -> tuple[str, ...]:
    subjects = values.names("filterSubjects")
    keys = values.names("keys")
    if keys and (bucket is None or subjects):
        raise values.invalid("keys", "used together with option bucket, without filterSubjects")
    name, what, given = ("keys", "keys", keys) if keys else ("filterSubjects", "subjects", subjects)
    for one in given:
        tokens = one.split(".")
        if "" in tokens or ">" in tokens[:-1] or re.search(r"\s", one):
            raise values.invalid(name, f"a comma list of {what} ({one!r} is not)")
    for one, two in itertools.combinations(given, 2):
        if common_pattern(one, two) is not None:
            raise values.invalid(name, f"{what} that do not overlap ({one!r} and {two!r} do)")
    if bucket is not None and keys:
        return tuple(subject_prefix(bucket) + key for key in keys)
    return subjects


def _positions(
    values: Values, which: str, streams: tuple[str, ...], *, batch: bool
) -> dict[str, Position]:
    stamp, offsets = f"{which}Timestamp", f"{which}Offsets"
    if values.text(stamp) is not None:
        when = values.parsed(stamp, _nanoseconds, 0, "an RFC 3339 time or milliseconds since 1970")
        return dict.fromkeys(streams, Position(time_ns=when))
    default = Position(word=EARLIEST if which == "starting" else LATEST)
    default_offsets: Position | dict[str, Position] = default
    given = values.parsed(
        offsets,
        _offsets,
        default_offsets,
        f"{EARLIEST}, {LATEST}, a sequence, or JSON such as "
        '{"ORDERS": 123, "OTHERS": "earliest"}',
    )
    if isinstance(given, Position):
        found = dict.fromkeys(streams, given)
    else:
        strange = sorted(set(given) - set(streams))
        if streams == (EVERY,):
            return {EVERY: default, **given}
        if strange:
            raise values.invalid(offsets, f"about the streams that are read (not {strange})")
        found = {name: given.get(name, default) for name in streams}
    forbidden = LATEST if which == "starting" else EARLIEST
    if batch and any(position.word == forbidden for position in found.values()):
        raise values.invalid(offsets, f"something else than '{forbidden}' in a batch read")
    return found


def _check_order(stream: str, starting: Position, ending: Position) -> None:
    for kind, first, last in (
        ("sequence", starting.seq, ending.seq),
        ("time", starting.time_ns, ending.time_ns),
    ):
        if first is not None and last is not None and last < first:
            raise SparkOptionError(
                f"stream {stream!r}: the {kind} to end at lies before the one to start at",
                code="JETSYNC_OPTION_CONFLICT",
            )


def _nanoseconds(text: str) -> int:
    if re.fullmatch(r"-?\d+", text):
        return int(text) * 1_000_000
    match = re.fullmatch(r"(.*?:\d\d)(?:\.(\d{1,9}))?(Z|z|[+-]\d\d:\d\d)?", text)
    if match is None:
        raise ValueError(text)
    zone = (match[3] or "Z").upper().replace("Z", "+00:00")
    moment = datetime.fromisoformat(match[1].replace(" ", "T") + zone).astimezone(timezone.utc)
    seconds = round((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds())
    return seconds * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))


def _position(value: object) -> Position:
    if isinstance(value, str):
        if value.lower() in (EARLIEST, LATEST):
            return Position(word=value.lower())
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)
    if value in _KAFKA_WORDS:
        return Position(word=_KAFKA_WORDS[value])
    if value < 0:
        raise ValueError(value)
    return Position(seq=value)


def _offsets(text: str) -> Position | dict[str, Position]:
    if not text.startswith("{"):
        return _position(text)
    parsed = json.loads(text)
    return {str(name): _position(value) for name, value in parsed.items()}
