"""Mirrors answer direct gets of their origin; a read gives the rows of the stream that was named.

A mirror inherits ``mirror_direct`` from an origin with ``allow_direct``. It may hold a part of the
stream, and a full one keeps what was deleted at the origin.
"""

from __future__ import annotations

import uuid

import pytest

from tests.harness.waiting import wait_until
from tests.spark.test_direct_read import direct_stream  # noqa: F401  a fixture
from tests.spark.test_range_read import rest, whole

ROUNDS = 24
"""Either of two responders answers by chance: so many reads see both."""


@pytest.fixture
def mirror_of(js):
    """Make mirrors that hold ``count`` messages when they are given out."""
    made: list[str] = []

    def make(stream, count, **source):
        name = "M" + uuid.uuid4().hex[:10]
        made.append(name)
        js.create_stream(name=name, mirror={"name": stream.name, **source})
        assert js.stream(name).info().config.mirror_direct
        wait_until(lambda: js.stream(name).info().state.messages == count)
        return name

    yield make
    for name in made:
        js.delete_stream(name)


def filtered_read(js, stream, mirror_of):
    """What the filter leaves out comes before what the mirror lacks."""
    for token in ("keep", "other", "keep", "elsewhere.keep") * 25:
        js.publish(f"{stream.name}.{token}", b"")
    mirror_of(stream, 75, filter_subject=f"{stream.name}.*")
    wanted = [seq for seq in range(1, 101) if seq % 4 != 2]
    filters = f"{stream.name}.keep,{stream.name}.elsewhere.keep"
    return wanted, {"filterSubjects": filters}


def one_filter(js, stream, mirror_of):
    for token in ("a.keep", "a.other", "a.keep", "b.keep") * 25:
        js.publish(f"{stream.name}.{token}", b"")
    mirror_of(stream, 75, filter_subject=f"{stream.name}.a.*")
    wanted = [seq for seq in range(1, 101) if seq % 4 != 2]
    return wanted, {"filterSubjects": f"{stream.name}.*.keep"}


def deleted_before_what_the_mirror_lacks(js, stream, mirror_of):
    for seq in range(1, 101):
        js.publish(f"{stream.name}.{'other' if seq == 60 else 'keep'}", b"")
    js.stream(stream.name).delete_msg(10)
    mirror_of(stream, 98, filter_subject=f"{stream.name}.keep")
    return [seq for seq in range(1, 101) if seq != 10], {}


def deleted_at_the_origin_only(js, stream, mirror_of):
    stream.fill(100)
    mirror_of(stream, 100)
    for seq in range(40, 61):
        js.stream(stream.name).delete_msg(seq)
    return [seq for seq in range(1, 101) if not 40 <= seq <= 60], {}


CASES = [
    filtered_read,
    one_filter,
    deleted_before_what_the_mirror_lacks,
    deleted_at_the_origin_only,
]


@pytest.mark.parametrize("method", ["auto", "direct"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_mirror_changes_no_row_of_a_range(js, direct_stream, mirror_of, case, method):  # noqa: F811
    stream = direct_stream()
    wanted, options = case(js, stream, mirror_of)
    for _ in range(ROUNDS):
        given = {"readMethod": method, "fetchBatch": "10000", **options}
        batches = whole(js, stream.name, servers=stream.url, **given)
        assert rest(batches) == wanted


@pytest.mark.parametrize("case", CASES[1:], ids=lambda case: case.__name__)
def test_spark_reads_the_named_stream_and_not_its_mirror(
    spark,
    js,
    direct_stream,  # noqa: F811
    mirror_of,
    case,
):
    pandas = pytest.importorskip("pandas", reason="the extra dev; make test installs it")
    stream = direct_stream()
    wanted, options = case(js, stream, mirror_of)
    expected = pandas.DataFrame({"seq": wanted})
    frame = (
        spark.read.format("jetstream")
        .options(**stream.read_options, **options, endingOffsets="100", minPartitions="2")
        .load()
        .select("seq")
    )
    for _ in range(8):
        seen = frame.toPandas().sort_values("seq", ignore_index=True)
        pandas.testing.assert_frame_equal(seen, expected)
