"""pushFilters=true: less is read, and the result stays the same."""

from __future__ import annotations

import operator
from datetime import datetime, timedelta, timezone

import pytest

from jetsync.spark.versions import HAS_FILTERS

if not HAS_FILTERS:
    pytest.skip(
        "filters came with PySpark 4.1; before, Spark filters itself", allow_module_level=True
    )

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from jetsync.spark.pushdown import FilteringReader
from jetsync.spark.read_options import ReadOptions
from tests.harness.soak import scaled
from tests.spark.conftest import NewStream
from tests.spark.raw_nats import publish_raw

SCHEMA = StructType()
for name, kind in (
    ("subject", "string"),
    ("stream", "string"),
    ("seq", "long"),
    ("timestamp", "timestamp"),
    ("timestamp_ns", "long"),
):
    SCHEMA.add(name, kind)

TOKENS = ("a", "b", "a.x", "a.y", "ab", "a.x.y")


@pytest.fixture(scope="module")
def filled(js, server):
    """Two streams of 40 messages, some removed, one subject not UTF-8; read in small pieces."""
    made = [NewStream(js, server.url, allow_direct=True) for _ in range(2)]
    for stream in made:
        for number in range(40):
            js.publish(f"{stream.name}.{TOKENS[number % len(TOKENS)]}", b"", msg_id=None)
        publish_raw(server.url, stream.name.encode() + b".\xff", b"NATS/1.0\r\n\r\n", b"")
        for seq in (5, 6, 20):
            js.stream(stream.name).delete_msg(seq)
    options = {
        "servers": server.url,
        "stream": ",".join(stream.name for stream in made),
        "maxRecordsPerPartition": "15",
        "pushFilters": "true",
    }
    yield made, options
    for stream in made:
        js.delete_stream(stream.name)


def read(options, filters):
    """Plan and read with some filters, as Spark does; returns the rows before it filters them."""
    made = FilteringReader(ReadOptions.parse(options, streaming=False), SCHEMA)
    left = list(made.pushFilters(filters))
    assert [id(item) for item in left] == [id(item) for item in filters]
    return [
        row for part in made.partitions() for batch in made.read(part) for row in batch.to_pylist()
    ]


TESTS = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, wanted: value in wanted,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}


def passes(row, item):
    """What Spark makes of a filter."""
    if isinstance(item, Not):
        return not passes(row, item.child)
    value = row[item.attribute[0]]
    return (
        value is not None if isinstance(item, IsNotNull) else TESTS[type(item)](value, item.value)
    )


def some_filters(rows):
    """Filters whose values occur in the rows, or nearly."""

    def of(column, values):
        attribute = st.just((column,))
        value = st.sampled_from(values)
        compared = st.sampled_from(
            [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
        )
        one = st.builds(lambda kind, a, v: kind(a, v), compared, attribute, value)
        several = st.builds(In, attribute, st.lists(value, min_size=1, max_size=4).map(tuple))
        return st.one_of(one, several, st.builds(Not, one), st.builds(IsNotNull, attribute))

    subjects = sorted({row["subject"] for row in rows})
    prefixes = sorted({subject[:end] for subject in subjects for end in range(len(subject) + 1)})
    moments = sorted(row["timestamp"] for row in rows)[::5]
    nanoseconds = sorted(row["timestamp_ns"] for row in rows)[::5]
    return st.one_of(
        of("subject", [*subjects, "none", "a.*", "a..b", ">"]),
        st.builds(StringStartsWith, st.just(("subject",)), st.sampled_from(prefixes)),
        st.builds(StringEndsWith, st.just(("subject",)), st.sampled_from(["x", ".y"])),
        st.builds(StringContains, st.just(("subject",)), st.sampled_from(["a", ".x"])),
        of("stream", [*sorted({row["stream"] for row in rows}), "none"]),
        of("seq", [-1, 0, 1, 4, 5, 6, 17, 20, 39, 41, 42, 2**62]),
        of("timestamp", [*moments, moments[0] - timedelta(1), moments[-1] + timedelta(1)]),
        of("timestamp_ns", [*nanoseconds, nanoseconds[0] - 1, nanoseconds[-1] + 1]),
    )


OWN_FILTERS = ("", "*.a,*.a.>", "*.*", "*.b")


@pytest.fixture(scope="module")
def unfiltered(filled):
    """What is read with each of the option's values when Spark pushes nothing."""
    _, options = filled
    return {own: read({**options, "filterSubjects": own}, []) for own in OWN_FILTERS}


@settings(deadline=None, max_examples=scaled(60, 2000))
@given(data=st.data(), own=st.sampled_from(OWN_FILTERS))
def test_any_filters_give_the_rows_that_they_give_without_being_pushed(
    filled, unfiltered, data, own
):
    _, options = filled
    filters = data.draw(st.lists(some_filters(unfiltered[""]), max_size=4))
    narrowed = read({**options, "filterSubjects": own}, filters)

    def kept(rows):
        found = [row for row in rows if all(passes(row, item) for item in filters)]
        return sorted(found, key=lambda row: (row["stream"], row["seq"]))

    assert kept(narrowed) == kept(unfiltered[own])


def narrowed_to(filled, *filters):
    """What is read of the first stream with some filters: the sequences."""
    (one, _), options = filled
    return sorted(row["seq"] for row in read({**options, "stream": one.name}, list(filters)))


def test_sequences_narrow_what_is_read(filled):
    seq = ("seq",)
    assert narrowed_to(filled, GreaterThan(seq, 35), LessThanOrEqual(seq, 38)) == [36, 37, 38]
    assert narrowed_to(filled, EqualTo(seq, 7)) == [7]
    assert narrowed_to(filled, In(seq, (3, 5, 4))) == [3, 4]
    assert narrowed_to(filled, EqualTo(seq, 7), EqualTo(seq, 8)) == []


def test_subjects_narrow_what_is_read(filled):
    (one, _), _ = filled
    subject = ("subject",)
    assert narrowed_to(filled, EqualTo(subject, f"{one.name}.b")) == [2, 8, 14, 26, 32, 38]
    both = In(subject, (f"{one.name}.b", f"{one.name}.ab"))
    assert narrowed_to(filled, both, LessThan(("seq",), 12)) == [2, 8, 11]
    below = StringStartsWith(subject, f"{one.name}.a.")
    assert narrowed_to(filled, below, LessThan(("seq",), 10)) == [3, 4, 9]
    assert narrowed_to(filled, EqualTo(subject, "elsewhere")) == []


def test_streams_and_times_narrow_what_is_read(filled):
    (_, two), options = filled
    rows = read(options, [EqualTo(("stream",), two.name)])
    assert {row["stream"] for row in rows} == {two.name}
    last = rows[-1]["timestamp"]
    late = narrowed_to(filled, GreaterThan(("timestamp",), last))
    assert late == []
    long_ago = datetime(2001, 1, 1, tzinfo=timezone.utc)
    assert narrowed_to(filled, LessThan(("timestamp",), long_ago)) == []


@pytest.fixture
def pushing(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return session


def frame_of(session, options):
    return session.read.format("jetstream").options(**options).load()


def test_spark_pushes_filters_and_plans_fewer_tasks(pushing, spark, filled):
    _, options = filled
    plain = frame_of(spark, {**options, "pushFilters": "false"})
    condition = "seq > 30 and subject like '%.a' and timestamp > '2020-01-01'"
    pushed = frame_of(pushing, options).where(condition)
    assert sorted(pushed.collect()) == sorted(plain.where(condition).collect())
    assert plain.rdd.getNumPartitions() == 6
    assert pushed.rdd.getNumPartitions() == 2
    assert frame_of(pushing, options).count() == plain.count()


def test_without_sparks_own_setting_the_read_says_which_one_it_is(spark, filled):
    _, options = filled
    with pytest.raises(PySparkException) as caught:
        frame_of(spark, options).collect()
    assert "DATA_SOURCE_PUSHDOWN_DISABLED" in str(caught.value)
    assert "spark.sql.python.filterPushdown.enabled" in str(caught.value)
