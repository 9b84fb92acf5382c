"""Run the tests as continuous integration does: ``python -m tests.lanes [pytest arguments]``.

First everything that may run beside other tests, in one process more than there are processors
(three to five), because most tests wait more than they compute; then, alone, what is marked
``timed`` because it measures time. Reports with the duration of every test go to ``build/tests``.
The exit code is that of the first lane that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "build" / "tests"
NOTHING_TO_RUN = 5
PROCESSES = str(min(4, max(2, os.cpu_count() or 1)) + 1)

LANES = {
    "parallel": ["-m", "not timed", "-n", PROCESSES, "--dist", "loadgroup"],
    "timed": ["-m", "timed"],
}


def run(lane: str, arguments: list[str]) -> int:
    report = [f"--junitxml={REPORTS / lane}.xml", "--durations=25", "--durations-min=2"]
    if lane == "parallel":
        report += ["--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *LANES[lane], *report, *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main() -> int:
    REPORTS.mkdir(parents=True, exist_ok=True)
    codes, took = [], []
    for lane in LANES:
        begun = time.monotonic()
        codes.append(run(lane, sys.argv[1:]))
        took.append(f"{lane} {time.monotonic() - begun:.0f} s")
        if codes[-1] == 2:  # interrupted
            break
    print(f"lanes: {', '.join(took)}", flush=True)
    if all(code == NOTHING_TO_RUN for code in codes):
        return NOTHING_TO_RUN
    return next((code for code in codes if code not in (0, NOTHING_TO_RUN)), 0)


if __name__ == "__main__":
    sys.exit(main())
