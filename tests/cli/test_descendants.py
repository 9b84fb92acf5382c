"""Processes that a child has started are found and ended, also when the child is gone."""

from __future__ import annotations

import os
import subprocess
import sys

from jetsync.cli.descendants import Descendants
from tests.harness.waiting import wait_until

PARENT = "import subprocess, sys; print(subprocess.Popen(['sleep', sys.argv[1]], stdout=2).pid)"


def start_grandchild(descendants: Descendants, seconds: str) -> int:
    """Start a process that sleeps and whose parent ends at once; return its pid."""
    with descendants.inheriting():
        parent = subprocess.run(
            [sys.executable, "-c", PARENT, seconds],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )
    return int(parent.stdout)


def test_a_process_without_a_parent_is_known_and_killed_in_the_end() -> None:
    descendants = Descendants()
    pid = start_grandchild(descendants, "600")
    # Its environment is there a moment after its parent knows that it runs.
    wait_until(lambda: descendants.pids() == [pid])
    descendants.end(patience=0.0)
    assert descendants.pids() == []


def test_one_that_leaves_by_itself_is_waited_for() -> None:
    descendants = Descendants()
    start_grandchild(descendants, "0.3")
    descendants.end(patience=60.0)
    assert descendants.pids() == []


def test_processes_started_elsewhere_do_not_count() -> None:
    descendants = Descendants()
    before = dict(os.environ)
    with descendants.inheriting():
        pass
    assert dict(os.environ) == before
    with subprocess.Popen(["sleep", "600"]) as other:
        assert descendants.pids() == []
        other.kill()
