"""A short, always equal run of the fuzz driver. The long form is ``python -m tests.fuzz.run``."""

from __future__ import annotations

from pathlib import Path

from tests.csrc.build import build, golden_file, run

SEED = 20
INPUTS = 40_000


def test_mutated_frames_break_no_invariant(tmp_path):
    """The invariants are listed at the top of fuzz.c."""
    program = build(tmp_path, "fuzz", [Path(__file__).parent / "fuzz.c"])
    run([str(program), str(SEED), str(INPUTS), str(golden_file(tmp_path))], timeout=120)
