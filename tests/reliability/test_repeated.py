"""The reliability tests of a commit, again and again for as long as a part may take (G23)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.figures import short_form
from tests.harness.soak import SOAKING

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
BUDGET = 80 * 60.0


@pytest.mark.skipif(not SOAKING, reason="make soak; it repeats what each commit runs once")
def test_runs_in_a_row_have_no_failure(record_figure):
    command = [sys.executable, "-m", "pytest", "-q", "-x", str(FOLDER)]
    begun, runs, longest = time.monotonic(), 0, 0.0
    while time.monotonic() + longest < begun + BUDGET:
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=ROOT, env=short_form(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"run {runs + 1}:\n{done.stdout[-5000:]}"
        longest = max(longest, time.monotonic() - started)
        runs += 1
    record_figure("G23 runs in a row without a failure", runs, goal=">= 10")
    assert runs >= 10
