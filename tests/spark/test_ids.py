"""Message ids: the same rows give the same ids, different rows never share one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.errors import ConfigError
from jetsync.jetstream.publish.content_ids import ContentIds
from jetsync.spark.ids import LoggedContentIds, PositionIds, SourceIds, short_hash
from jetsync.spark.publishing import make_ids
from jetsync.spark.write_options import WriteOptions

HEADERS = pa.map_(pa.string(), pa.binary())


def batch(rows: Sequence[tuple[str, bytes, object]], *, headers: bool = True) -> pa.RecordBatch:
    columns = {
        "subject": pa.array([row[0] for row in rows], pa.string()),
        "data": pa.array([row[1] for row in rows], pa.binary()),
    }
    if headers:
        columns["headers"] = pa.array([row[2] or [] for row in rows], HEADERS)
    return pa.RecordBatch.from_pydict(columns)


def content_ids(
    *batches: pa.RecordBatch, subject: str | None = None, limit: int = 1_000_000
) -> list[str]:
    maker = ContentIds("q.1.2", limit)
    return [one for item in batches for one in maker.column(item, subject).to_pylist()]


def expected_ids(batch: pa.RecordBatch, subject: str | None = None, limit: int = 1_000_000):
    """The same ids, made in the plainest way. A version that made others would not recognise what
    an earlier one stored."""
    seen: dict[bytes, int] = {}
    generation = 0
    for row in batch.to_pylist():
        parts = [(subject or "").encode()]
        if subject is None:
            parts += sized(row["subject"])
        if "headers" in row:
            headers = row["headers"] or []
            parts.append(len(headers).to_bytes(4, "little"))
            for name, value in headers:
                parts += [*sized(name), *sized(value)]
        parts.append(row["data"] or b"")
        digest = hashlib.blake2b(b"".join(parts), digest_size=12).digest()
        if len(seen) >= limit and digest not in seen:
            seen.clear()
            generation += 1
        count = seen.get(digest, 0)
        seen[digest] = count + 1
        generations = f"g{generation}-" if generation else ""
        yield f"q.1.2.{digest.hex()}.{generations}{count}"


def sized(value: str | bytes) -> list[bytes]:
    data = value.encode() if isinstance(value, str) else value
    return [len(data).to_bytes(4, "little"), data]


texts = st.text(max_size=3)
payloads = st.binary(max_size=3)
header_maps = st.none() | st.lists(st.tuples(texts, payloads), max_size=3)
rows_of = st.lists(st.tuples(texts, payloads, header_maps), max_size=12)


@settings(deadline=None)
@given(rows_of, st.none() | texts, st.booleans(), st.integers(1, 5), st.integers(0, 3))
def test_ids_are_what_they_always_were(rows, subject, headers, limit, first):
    whole = batch(rows, headers=headers)
    for piece in (whole, whole.slice(first)):
        assert content_ids(piece, subject=subject, limit=limit) == list(
            expected_ids(piece, subject, limit)
        )


def test_ids_of_rows_of_any_size_are_what_they_always_were():
    text = b"0123456789" * 60
    rows = [("s" * (n % 7), text[:n], [("k" * (n % 5), text[: n % 150])]) for n in range(600)]
    for headers in (True, False):
        piece = batch(rows, headers=headers)
        assert content_ids(piece) == list(expected_ids(piece))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_ids_do_not_depend_on_how_a_column_is_laid_out(kind):
    rows = batch([(f"s.{i}", b"%d" % i, None) for i in range(9)], headers=False)
    other = pa.RecordBatch.from_pydict(
        {"subject": rows.column("subject"), "data": rows.column("data").cast(kind)}
    )
    assert content_ids(other.slice(2)) == content_ids(rows.slice(2))


def test_an_id_that_earlier_versions_made():
    (one,) = content_ids(batch([("orders.new", b"{}", [("Kind", b"a")])]))
    assert one == "q.1.2.5ff053938cf2a6c959127cef.0"


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


def test_counting_starts_anew_beyond_the_limit_without_ever_sharing_an_id():
    rows = [("s", bytes([i % 5]), None) for i in range(40)]
    found = content_ids(batch(rows), limit=3)
    assert len(set(found)) == 40
    assert any(".g1-" in one for one in found)


def test_threads_may_share_a_maker_and_no_id_is_given_twice():
    maker = ContentIds("q.1.2", 150)
    rows = batch([("s", b"%d" % (i % 200), None) for i in range(2000)])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: maker.column(rows, None).to_pylist(), range(20)))
    assert len({one for ids in found for one in ids}) == 20 * 2000


def test_headers_with_lists_of_values_are_refused():
    """Which of their layouts are the same content is decided above."""
    kind = pa.map_(pa.string(), pa.list_(pa.binary()))
    rows = pa.RecordBatch.from_pydict(
        {"data": [b"x"], "headers": pa.array([[("k", [b"v"])]], kind)}
    )
    with pytest.raises(ConfigError, match="lists"):
        content_ids(rows, subject="s")


def test_position_ids_count_over_batches():
    maker = PositionIds("q.1.2")
    rows = batch([("a", b"x", None)] * 2)
    assert maker.column(rows, None).to_pylist() == ["q.1.2.0", "q.1.2.1"]
    assert maker.column(rows, None).to_pylist() == ["q.1.2.2", "q.1.2.3"]


def test_queries_get_different_prefixes():
    assert short_hash("a") != short_hash("b")
    assert len(short_hash("a")) == 12


def test_a_task_that_has_more_rows_than_are_remembered_says_so_once(caplog):
    ids = LoggedContentIds("p", 10)
    batch = pa.RecordBatch.from_pydict({"data": [b"%d" % number for number in range(8)]})
    for _ in range(4):
        ids.column(batch, "s")
    assert caplog.text.count("more rows than contentIdRows") == 1


def test_a_task_tells_as_many_rows_apart_in_any_order_as_the_option_says():
    rows = pa.RecordBatch.from_pydict({"data": [b"%d" % number for number in range(8)]})
    twice = pa.concat_batches([rows, rows])
    for most in (8, 5):
        options = WriteOptions.parse({"contentIdRows": str(most)})
        maker = make_ids(options, "query", "3", 1)
        assert maker is not None
        made = maker.column(twice, "s").to_pylist()
        assert any(".g1-" in one for one in made) == (most < 8)


def test_ids_by_source_follow_from_position_and_content_only():
    rows = pa.RecordBatch.from_pydict(
        {
            "data": [b"a", b"b", b"a", b"a"],
            "stream": ["S", "S", "S", "T"],
            "seq": pa.array([1, 1, 2, 1], pa.int64()),
        }
    )
    made = SourceIds("").column(rows, "s").to_pylist()
    assert len(set(made)) == 4
    backwards = SourceIds("").column(rows.take([3, 2, 1, 0]), "s").to_pylist()
    assert backwards == made[::-1]
    one_by_one = [SourceIds("").column(rows.slice(at, 1), "s")[0].as_py() for at in range(4)]
    assert one_by_one == made
    assert SourceIds("q").column(rows, "s").to_pylist() == ["q/" + one for one in made]
