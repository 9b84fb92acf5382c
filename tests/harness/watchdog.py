"""A program that hangs is ended, and the test fails with the stacks of all its threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

from tests.harness.places import ROOT, SEARCH_PATH
from tests.harness.processor import Waiting

DUMPED_WITHIN = 10.0


class Finished:
    """How a program ended."""

    def __init__(self, code: int, output: str, errors: str, waiting: Waiting) -> None:
        self.code = code
        self.output = output
        self.errors = errors
        self._ended = time.monotonic()
        self._waiting = waiting

    def took_since(self, moment: float) -> float:
        """Seconds from a moment of the program (``time.monotonic()``) to its end, without those in
        which it waited for a processor."""
        return self._ended - moment - self._waiting.since(moment)

    def __repr__(self) -> str:
        return f"exit code {self.code}\n--- output\n{self.output}\n--- errors\n{self.errors}"


def run_code(code: str, *arguments: str, limit: float, options: tuple[str, ...] = ()) -> Finished:
    """Run Python source in a process of its own, for ``limit`` seconds at most."""
    return _run([*options, "-c", textwrap.dedent(code), *arguments], limit)


def run_module(module: str, *arguments: str, limit: float) -> Finished:
    """Run a module as a program, for ``limit`` seconds at most."""
    return _run(["-m", module, *arguments], limit)


def _run(command: list[str], limit: float) -> Finished:
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": SEARCH_PATH},
    )
    waiting = Waiting(process.pid)
    try:
        with waiting:
            output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler writes the stacks
        try:
            output, errors = process.communicate(timeout=DUMPED_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # what it started holds the pipes open
            output, errors = process.communicate()
        raise AssertionError(
            f"the program did not end within {limit} s\n{output}\n{errors}"
        ) from None
    return Finished(process.returncode, output, errors, waiting)
