"""Ctrl-C ends every wait of the main thread at once, and nothing is lost by it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.concurrency.interrupted import PROGRAMS

ROOT = Path(__file__).parents[2]
LIMIT = 30.0  # the programs wait for an hour


def asleep(pid):
    """Whether the main thread waits; where that cannot be known the first signal may be early."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "S"


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_interrupt_ends_the_wait_and_loses_nothing(name):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.concurrency.interrupted", name],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", process.communicate()
        end = time.monotonic() + LIMIT
        while process.poll() is None:
            assert time.monotonic() < end, "the interrupt did not end the wait"
            if asleep(process.pid):
                process.send_signal(signal.SIGINT)
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        said, complained = process.communicate()
    finally:
        process.kill()
        process.communicate()
    assert (said, process.returncode) == ("fine\n", 0), complained
