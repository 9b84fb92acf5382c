"""What two subject patterns have in common."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.spark.subjects import common_pattern, is_literal, matching_rows


@pytest.mark.parametrize(
    ("one", "two", "common"),
    [
        ("a.b", "a.b", "a.b"),
        ("a.*", "a.b", "a.b"),
        ("a.>", "a.b.c", "a.b.c"),
        ("*.b", "a.*", "a.b"),
        (">", "x", "x"),
        ("a.*.>", "a.>", "a.*.>"),
        ("a.>", "*.b.*", "a.b.*"),
        ("a.b", "a.c", None),
        ("a.*", "a.b.c", None),
        ("a.>", "a", None),
        ("a.*.x", "a.b.y", None),
    ],
)
def test_the_common_part_of_two_patterns(one, two, common):
    assert common_pattern(one, two) == common
    assert common_pattern(two, one) == common


SUBJECTS = [
    ".".join(tokens) for n in (1, 2, 3) for tokens in itertools.product(("a", "b"), repeat=n)
]
patterns = st.lists(st.sampled_from(["a", "b", "*"]), max_size=3).flatmap(
    lambda tokens: st.sampled_from(
        [".".join(tokens), ".".join([*tokens, ">"])] if tokens else [">"]
    )
)


def passing(*one_of):
    rows = pa.record_batch([SUBJECTS], names=["subject"])
    return set(matching_rows(rows, one_of).column("subject").to_pylist())


@settings(deadline=None)
@given(patterns, patterns)
def test_the_common_pattern_passes_what_both_pass(one, two):
    common = common_pattern(one, two)
    assert (passing(common) if common is not None else set()) == passing(one) & passing(two)


@settings(deadline=None)
@given(patterns, patterns)
def test_several_patterns_pass_what_any_of_them_passes(one, two):
    assert passing(one, two) == passing(one) | passing(two)


def test_special_characters_of_a_subject_are_taken_literally():
    rows = pa.record_batch([["a+.b", "aa.b", "a+xb", "$KV.k"]], names=["subject"])
    found = matching_rows(rows, ["a+.*", "$KV.>"])
    assert found.column("subject").to_pylist() == ["a+.b", "$KV.k"]


def test_what_a_message_can_be_stored_under():
    assert is_literal("a.b")
    assert not any(map(is_literal, ["", "a.", ".a", "a..b", "a.*", ">", "a b"]))
