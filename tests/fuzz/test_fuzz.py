"""Short runs of the fuzz targets. Each target lists its invariants at its top; the long form is
``make fuzz`` (``python -m tests.fuzz.run``)."""

from __future__ import annotations

import pytest

from tests.fuzz.corpus import TARGETS
from tests.fuzz.engine import HERE, Guided, Plain, libfuzzer
from tests.harness.soak import scaled

SEED = 20
INPUTS = scaled(2_000, 2_000_000)
SECONDS = scaled(6, 1500)
GUIDED = scaled(100_000, 200_000_000)
LEAST = scaled(1, 2_000_000)  # of them for each target


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return Plain(tmp_path_factory.mktemp("plain"))


@pytest.mark.timeout(scaled(300, 7200))
@pytest.mark.parametrize("target", TARGETS)
def test_seeds_and_mutations_of_them_break_no_invariant(target, plain):
    """Always the same inputs, on any machine with a C compiler."""
    assert not plain.fuzz(target, INPUTS, SEED).broken


@pytest.mark.slow
@pytest.mark.timeout(scaled(300, 7200))
def test_inputs_that_coverage_leads_to_break_no_invariant(tmp_path, record_figure):
    """libFuzzer on all targets. Continuous integration must have it; a developer's machine without
    clang has the test above."""
    if libfuzzer() is None:
        pytest.skip("no clang with libFuzzer on this machine; the test above runs")
    outcomes = Guided(tmp_path).fuzz_all(list(TARGETS), SECONDS, SEED)
    broken = [one.broken for one in outcomes if one.broken]
    total = sum(one.executions for one in outcomes)
    record_figure("G14 findings of guided fuzzing", len(broken), goal="0")
    record_figure("G14 guided inputs", total, goal=f">= {GUIDED}")
    for one in outcomes:
        record_figure(f"G14 {one.target}", one.rate, "inputs/s")
    assert not broken
    assert min(one.executions for one in outcomes) >= LEAST
    assert total >= GUIDED


def test_every_target_has_seeds_and_says_what_it_holds():
    """A target's file without seeds, or without invariants at its top, would be noise."""
    files = {path.stem: path.read_text() for path in (HERE / "targets").glob("*.c")}
    assert set(files) == set(TARGETS)
    for name, text in files.items():
        assert text.startswith("/* Invariants of jet_"), name
        assert len(TARGETS[name]()) >= 5
