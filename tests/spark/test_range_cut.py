"""Cutting the overshoot of the last batch of a range, and finding what did not come."""

from __future__ import annotations

import bisect

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.spark.range_read import count_up_to, first_gap


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), unique=True), st.integers(0, 301))
def test_the_cut_keeps_every_sequence_up_to_the_end(seqs, last):
    ascending = sorted(seqs)
    found = count_up_to(pa.array(ascending, pa.uint64()), last)
    assert found == bisect.bisect_right(ascending, last)


@settings(deadline=None)
@given(st.lists(st.integers(5, 60), min_size=1, unique=True), st.integers(0, 5))
def test_the_first_gap_is_the_first_sequence_that_did_not_come(seqs, wanted):
    ascending = sorted(seqs)
    missing = next(seq for seq in range(wanted, 62) if seq not in seqs)
    after = next((seq for seq in ascending if seq > missing), None)
    expected = None if after is None else (missing, after)
    assert first_gap(wanted, pa.array(ascending, pa.uint64())) == expected
