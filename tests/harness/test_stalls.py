"""The stopwatch charges the library for all that is the library's, and the machine for the rest."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.harness.in_time import GRACE
from tests.harness.stalls import Stalls, overlap

pytestmark = pytest.mark.timed

LONG = 0.5


def test_what_counts_is_the_part_of_a_pause_that_overlaps():
    pauses = [(10.0, 11.0), (20.0, 20.5)]
    assert overlap(pauses, 0.0, 5.0) == 0
    assert overlap(pauses, 10.5, 20.25) == pytest.approx(0.75)


def charged(call):
    with Stalls() as stalls:
        begun = time.monotonic()
        call()
        ended = time.monotonic()
        return ended - begun - stalls.during(begun, ended)


def test_a_call_that_keeps_the_gil_is_charged():
    """ctypes.PyDLL calls C without letting other threads of Python run."""
    c = ctypes.PyDLL(None)
    assert charged(lambda: c.usleep(int(LONG * 1_000_000))) >= LONG * 0.9


def test_a_call_that_waits_without_the_gil_is_charged():
    assert charged(lambda: time.sleep(LONG)) >= LONG * 0.9  # the stall itself


def test_a_call_that_is_late_is_seen_whether_it_keeps_the_gil_or_not(in_time):
    c = ctypes.PyDLL(None)
    late = 0.1 + GRACE + 0.1
    calls = (
        lambda: c.usleep(int(late * 1_000_000)),
        lambda: time.sleep(late),  # the late call itself
    )
    for call in calls:
        with pytest.raises(AssertionError), in_time(0.1):
            call()
        with in_time(late):
            call()
    with pytest.raises(AssertionError), in_time(0.1, least=0.05):
        pass


PROGRAM = f"""
import time
from tests.harness.stalls import Stalls
with Stalls() as stalls:
    begun = time.monotonic()
    print("ready", flush=True)
    while time.monotonic() - begun < {LONG} * 1.5:
        pass
    ended = time.monotonic()
    print(ended - begun, stalls.during(begun, ended), flush=True)
"""


def test_a_pause_of_the_whole_machine_is_not_charged():
    """Both processes are stopped together, as a machine that stands still stops them."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    os.killpg(program.pid, signal.SIGSTOP)
    time.sleep(LONG)  # the stall itself
    os.killpg(program.pid, signal.SIGCONT)
    said, _ = program.communicate(timeout=60)
    took, paused = map(float, said.split())
    assert program.returncode == 0
    assert LONG * 0.8 <= paused <= took
