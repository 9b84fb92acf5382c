"""Message ids: the same rows give the same ids, different rows never share one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.spark import ids
from jetsync.spark.ids import ContentIds, PositionIds, short_hash

HEADERS = pa.map_(pa.string(), pa.binary())


def batch(rows: Sequence[tuple[str, bytes, object]], *, headers: bool = True) -> pa.RecordBatch:
    columns = {
        "subject": pa.array([row[0] for row in rows], pa.string()),
        "data": pa.array([row[1] for row in rows], pa.binary()),
    }
    if headers:
        columns["headers"] = pa.array([row[2] or [] for row in rows], HEADERS)
    return pa.RecordBatch.from_pydict(columns)


def content_ids(*batches: pa.RecordBatch, subject: str | None = None) -> list[str]:
    maker = ContentIds("q.1.2")
    return [one for item in batches for one in maker.column(item, subject).to_pylist()]


texts = st.text(max_size=3)
payloads = st.binary(max_size=3)
header_maps = st.none() | st.lists(st.tuples(texts, payloads), max_size=3)
rows_of = st.lists(st.tuples(texts, payloads, header_maps), max_size=12)


@settings(deadline=None)
@given(rows_of, st.randoms(use_true_random=False))
def test_ids_do_not_depend_on_the_order_of_rows(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert sorted(content_ids(batch(rows))) == sorted(content_ids(batch(shuffled)))


@settings(deadline=None)
@given(rows_of)
def test_no_two_rows_of_a_task_share_an_id(rows):
    found = content_ids(batch(rows))
    assert len(set(found)) == len(rows)


@settings(deadline=None)
@given(rows_of)
def test_ids_do_not_depend_on_how_rows_were_cut_into_batches(rows):
    whole = batch(rows)
    parts = [whole.slice(0, len(rows) // 2), whole.slice(len(rows) // 2)]
    assert content_ids(whole) == content_ids(*parts)


def test_an_id_has_the_documented_parts():
    (one,) = content_ids(batch([("a", b"x", None)]))
    query, batch_id, partition, digest, count = one.split(".")
    assert (query, batch_id, partition, count) == ("q", "1", "2", "0")
    assert len(bytes.fromhex(digest)) == 12


def test_repeated_rows_are_counted():
    found = content_ids(batch([("a", b"x", None)] * 3))
    assert [one.rsplit(".", 1)[1] for one in found] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("ab", b"c", None), ("a", b"bc", None)),
        (("a", b"b", []), ("a", b"b", [("", b"")])),
        (("a", b"b", [("k", b"v")]), ("a", b"b", [("kv", b"")])),
        (("a", b"b", [("k", b"v"), ("k", b"w")]), ("a", b"b", [("k", b"vw")])),
        (("a", b"b", [("k", b"v"), ("l", b"")]), ("a", b"b", [("k", b""), ("l", b"v")])),
    ],
)
def test_rows_that_differ_only_in_where_the_borders_are_differ(one, two):
    digests = [item.split(".")[3] for item in content_ids(batch([one, two]))]
    assert digests[0] != digests[1]


def test_the_fixed_subject_counts():
    rows = batch([("", b"x", None)], headers=False).select(["data"])
    assert content_ids(rows, subject="a") != content_ids(rows, subject="b")


def test_counting_starts_anew_beyond_the_limit_without_ever_sharing_an_id(monkeypatch):
    monkeypatch.setattr(ids, "GENERATION_ROWS", 3)
    rows = [("s", bytes([i % 5]), None) for i in range(40)]
    found = content_ids(batch(rows))
    assert len(set(found)) == 40
    assert any(".g1-" in one for one in found)


def test_position_ids_count_over_batches():
    maker = PositionIds("q.1.2")
    rows = batch([("a", b"x", None)] * 2)
    assert maker.column(rows, None).to_pylist() == ["q.1.2.0", "q.1.2.1"]
    assert maker.column(rows, None).to_pylist() == ["q.1.2.2", "q.1.2.3"]


def test_queries_get_different_prefixes():
    assert short_hash("a") != short_hash("b")
    assert len(short_hash("a")) == 12
