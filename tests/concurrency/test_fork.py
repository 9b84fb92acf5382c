"""A fork in the middle of traffic: the child can exit, the parent does not notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_child_forked_in_the_middle_of_traffic_exits_and_disturbs_nothing():
    done = subprocess.run(
        [sys.executable, "-m", "tests.concurrency.forked"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr
