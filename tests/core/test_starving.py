"""Where memory fails, at any allocation, a call raises MemoryError and nothing is lost."""

from __future__ import annotations

from tests.harness.starve import needs_glibc, starved

pytestmark = needs_glibc


def test_a_failing_allocator_loses_nothing(tmp_path, record_figure):
    counts = starved("tests.core.starving", tmp_path)
    assert len(counts) == 15
    assert min(counts.values()) > 5, counts
    record_figure("allocations refused, and nothing lost", sum(counts.values()))
