"""Cutting the overshoot of the last batch of a range."""

from __future__ import annotations

import bisect

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.spark.range_read import count_up_to


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), unique=True), st.integers(0, 301))
def test_the_cut_keeps_every_sequence_up_to_the_end(seqs, last):
    ascending = sorted(seqs)
    found = count_up_to(pa.array(ascending, pa.uint64()), last)
    assert found == bisect.bisect_right(ascending, last)
