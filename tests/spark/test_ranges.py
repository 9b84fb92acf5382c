"""Cutting work into pieces: nothing is left out, nothing is read twice."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.spark.ranges import SequenceRange, limit_heads, split_ranges

counts = st.integers(min_value=0, max_value=10_000)


@settings(deadline=None)
@given(length=counts, max_records=st.integers(1, 5000), least=st.integers(0, 50), first=counts)
def test_pieces_cover_a_range_exactly_once_in_order(length, max_records, least, first):
    whole = SequenceRange("S", "c", first, first + length - 1)
    pieces = split_ranges([whole], max_records=max_records, min_partitions=least)
    covered = [seq for piece in pieces for seq in range(piece.first, piece.last + 1)]
    assert covered == list(range(first, first + length))
    assert all(0 < len(piece) <= max_records for piece in pieces)
    assert len(pieces) >= min(least, length)


@settings(deadline=None)
@given(st.lists(counts, min_size=1, max_size=5), st.integers(1, 40))
def test_several_streams_share_the_least_number_of_pieces(lengths, least):
    ranges = [SequenceRange(f"S{i}", "c", 1, n) for i, n in enumerate(lengths)]
    pieces = split_ranges(ranges, max_records=10**9, min_partitions=least)
    assert sum(len(piece) for piece in pieces) == sum(lengths)
    assert len(pieces) >= min(least, sum(lengths))


@pytest.mark.parametrize(
    ("length", "pieces"), [(1, 1), (4_999, 1), (50_000, 8), (336_776, 8), (2_000_000, 40)]
)
def test_without_options_a_range_is_cut_for_several_cores(length, pieces):
    made = split_ranges([SequenceRange("S", "c", 1, length)])
    assert len(made) == pieces
    assert max(len(piece) for piece in made) - min(len(piece) for piece in made) <= 1


def test_two_streams_share_the_pieces_that_there_are_without_options():
    ranges = [SequenceRange(name, "c", 1, 40_000) for name in "AB"]
    assert [piece.stream for piece in split_ranges(ranges)] == ["A"] * 4 + ["B"] * 4


def test_a_range_with_many_holes_is_cut_by_the_messages_that_there_are():
    old_bucket = [SequenceRange("KV_b", "c", 1, 2_000_000_000)]
    assert len(split_ranges(old_bucket, messages=1_000_000)) == 20
    assert len(split_ranges(old_bucket)) == 1_000


def test_an_empty_range_gives_no_piece():
    assert split_ranges([SequenceRange("S", "c", 8, 7)], max_records=5, min_partitions=3) == []


def test_a_range_travels_by_pickle():
    item = SequenceRange("S", "c", 1, 2)
    assert pickle.loads(pickle.dumps(item)) == item


def test_without_a_budget_everything_waiting_is_taken():
    assert limit_heads({"S": 3}, {"S": 10}, None) == {"S": 10}


def test_a_head_behind_the_start_takes_nothing():
    assert limit_heads({"S": 12}, {"S": 10}, 5) == {"S": 12}


def test_a_budget_is_shared_in_proportion():
    assert limit_heads({"A": 0, "B": 0}, {"A": 900, "B": 100}, 100) == {"A": 90, "B": 10}


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from("ABCDE"), st.tuples(counts, counts), min_size=1),
    st.integers(1, 3000),
)
def test_a_budget_is_used_up_but_never_exceeded(streams, budget):
    starts = {name: start for name, (start, _) in streams.items()}
    heads = {name: start + waiting for name, (start, waiting) in streams.items()}
    ends = limit_heads(starts, heads, budget)
    taken = sum(ends[name] - starts[name] for name in starts)
    assert taken == min(budget, sum(heads[name] - starts[name] for name in starts))
    assert all(starts[name] <= ends[name] <= heads[name] for name in starts)


@pytest.mark.parametrize("budget", [1, 2])
def test_a_budget_smaller_than_the_number_of_streams_still_makes_progress(budget):
    ends = limit_heads(dict.fromkeys("ABC", 0), dict.fromkeys("ABC", 100), budget)
    assert sum(ends.values()) == budget
