"""The reliability tests of a commit, again and again (G23).

Each run takes the lanes of ``tests/lanes.py``, as a commit does: beside each other what may run so,
then alone what measures time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.figures import short_form
from tests.harness.soak import SOAKING
from tests.lanes import LANES

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
BUDGET = 80 * 60.0
RUNS = 12


@pytest.mark.skipif(not SOAKING, reason="make soak; it repeats what each commit runs once")
def test_runs_in_a_row_have_no_failure(record_figure):
    begun, runs, longest, failed = time.monotonic(), 0, 0.0, ""
    while runs < RUNS and not failed and time.monotonic() + longest < begun + BUDGET:
        started = time.monotonic()
        failed = "".join(map(failure, LANES.values()))
        longest = max(longest, time.monotonic() - started)
        runs += not failed
    record_figure("G23 runs in a row without a failure", runs, goal=f">= {RUNS}")
    assert not failed, f"run {runs + 1}:\n{failed}"
    assert runs == RUNS


def failure(lane: list[str]) -> str:
    """Run a lane; return the end of what it said, "" when all of it passed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *lane, str(FOLDER)],
        cwd=ROOT,
        env=short_form(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout[-5000:] if done.returncode else ""
