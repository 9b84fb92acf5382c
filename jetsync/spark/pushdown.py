"""Filters of a batch query that the server can apply: ``pushFilters=true``.

They only narrow the read. Spark is told that none was taken over and applies them all again, so a
row too many does no harm. A row that is left out here certainly fails a filter.

Spark refuses every read with a reader that has ``pushFilters`` while
``spark.sql.python.filterPushdown.enabled`` is off, so this is a reader of its own.
"""

# pyspark is optional, so its base classes are unknown where it is not installed.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from jetsync.spark.positions import first_since, head_of, open_stream
from jetsync.spark.ranges import SequenceRange
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.reader import JetStreamReader
from jetsync.spark.subjects import common_pattern, is_literal

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from jetsync import JetStream

__all__ = ["Bounds", "FilteringReader", "narrowed"]

# The leader is asked once per subject where a range begins.
MOST_SUBJECTS = 16
# The replacement character for bytes that are not UTF-8, which no subject on the server has.
REPLACEMENT = "\ufffd"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class FilteringReader(JetStreamReader):
    """Reads less of a stream when a query asks for less."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take notice of the filters; return them all, for Spark to apply. Does not block."""
        plain = [item for item in filters if not isinstance(item, Not)]
        self._bounds = Bounds.of(plain)
        self._options = narrowed(self._options, plain)
        return filters

    def _range(self, name: str, js: JetStream) -> tuple[SequenceRange, int]:
        wanted, messages = super()._range(name, js)
        return self._bounds.cut(wanted, js), messages


@dataclass(frozen=True)
class Bounds:
    """Sequences and times (in ns) that rows must have, ends included. None: no end."""

    first: int | None = None
    last: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    @classmethod
    def of(cls, filters: Sequence[Filter]) -> Bounds:
        """Return what all filters together leave; none of them is negated."""
        bounds = cls()
        for item in filters:
            low, high = _interval(item)
            if item.attribute == ("seq",):
                bounds = bounds._within(cls(first=low, last=high))
            elif item.attribute == ("timestamp_ns",):
                bounds = bounds._within(cls(since_ns=low, until_ns=high))
            elif item.attribute == ("timestamp",):
                # Spark cuts to microseconds.
                since = None if low is None else low * 1000
                until = None if high is None else high * 1000 + 999
                bounds = bounds._within(cls(since_ns=since, until_ns=until))
        return bounds

    def _within(self, other: Bounds) -> Bounds:
        return Bounds(
            _either(max, self.first, other.first),
            _either(min, self.last, other.last),
            _either(max, self.since_ns, other.since_ns),
            _either(min, self.until_ns, other.until_ns),
        )

    def cut(self, whole: SequenceRange, js: JetStream) -> SequenceRange:
        """Return the part of a range that can pass. Blocks if times have to be looked up."""
        first = _either(max, whole.first, self.first)
        last = _either(min, whole.last, self.last)
        if self.since_ns is not None or self.until_ns is not None:
            stream = open_stream(js, whole.stream)
            head = head_of(stream)
            if self.since_ns is not None:
                found = first_since(stream, head, self.since_ns)
                first = max(first, head.last_seq + 1 if found is None else found)
            if self.until_ns is not None:
                beyond = first_since(stream, head, self.until_ns + 1)
                last = last if beyond is None else min(last, beyond - 1)
        return replace(whole, first=first, last=last)


def narrowed(options: ReadOptions, filters: Sequence[Filter]) -> ReadOptions:
    """Return options that read only streams and subjects which can pass all filters.

    None of them is negated.
    """
    streams, subjects = options.streams, options.filter_subjects
    for item in filters:
        values = _values(item)
        if item.attribute == ("stream",) and values is not None:
            streams = tuple(name for name in streams if name in values)
        elif item.attribute == ("subject",):
            patterns = _patterns(item, values)
            if patterns is not None:
                subjects = _common(subjects, patterns)
                if not subjects:
                    # No pattern would mean every subject.
                    return replace(options, streams=())
    return replace(options, streams=streams, filter_subjects=subjects)


def _values(item: Filter) -> list[Any] | None:
    """Return the values of which a row must have one; None if the filter does not say so."""
    if isinstance(item, (EqualTo, EqualNullSafe)):
        return [item.value]
    if isinstance(item, In):
        return [value for value in item.value if value is not None]
    return None


def _patterns(item: Filter, values: list[Any] | None) -> tuple[str, ...] | None:
    """Return subject patterns of which a row must match one; None if there is no telling."""
    if isinstance(item, StringStartsWith):
        # Only whole tokens: what begins with "a.b" is somewhere below "a".
        parent = item.value.rpartition(".")[0]
        return (f"{parent}.>",) if _is_clean(parent) else None
    if values is None or len(values) > MOST_SUBJECTS or not all(map(_is_clean, values)):
        return None
    return tuple(dict.fromkeys(values))


def _is_clean(subject: Any) -> bool:
    return isinstance(subject, str) and REPLACEMENT not in subject and is_literal(subject)


def _common(have: tuple[str, ...], also: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns of the subjects that match one of both sides; no ``have`` means all."""
    both = (common_pattern(one, two) for one in have or (">",) for two in also)
    return tuple(pattern for pattern in both if pattern is not None)


def _interval(item: Filter) -> tuple[int | None, int | None]:
    """Return the least and the greatest number that passes; times in microseconds."""
    values = _values(item)
    if values is not None:
        numbers = [_number(value) for value in values]
        known = [number for number in numbers if number is not None]
        complete = bool(known) and len(known) == len(numbers)
        return (min(known), max(known)) if complete else (None, None)
    number = _number(getattr(item, "value", None))
    if number is not None:
        if isinstance(item, GreaterThan):
            return number + 1, None
        if isinstance(item, GreaterThanOrEqual):
            return number, None
        if isinstance(item, LessThan):
            return None, number - 1
        if isinstance(item, LessThanOrEqual):
            return None, number
    return None, None


def _number(value: Any) -> int | None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - EPOCH) // timedelta(microseconds=1)
    return value if type(value) is int else None


def _either(choose: Any, one: int | None, other: int | None) -> Any:
    """Choose between two numbers of which one may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)
