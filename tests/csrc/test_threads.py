"""The lock protocol around the C queues leaves no data race: nine threads, thread sanitizer."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.csrc.build import THREADS, build_program, clean_environment, compile_library
from tests.harness.soak import scaled

HERE = Path(__file__).parent / "threads"
ROUNDS = scaled(20_000, 2_000_000)
FEW = 20_000  # rounds in which a missing lock must be noticed; it stops at the first race
FOUND = 66  # what the sanitizer exits with
LOCKS = ("route", "box", "take", "out", "send", "seat")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="gcc's thread sanitizer is Linux's")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("threads")
    sources = sorted(HERE.glob("*.c"))
    link = ["-pthread"]
    return build_program(
        folder, "threads", sources, compile_library(folder, THREADS), THREADS, link
    )


def run(program, *arguments, timeout=120.0):
    # Without random addresses: some kernels put things where an older sanitizer cannot have them.
    setarch = shutil.which("setarch")
    front = [setarch, platform.machine(), "-R"] if setarch else []
    options = f"halt_on_error=1:exitcode={FOUND}:second_deadlock_stack=1"
    return subprocess.run(
        [*front, str(program), *map(str, arguments)],
        env={**clean_environment(), "TSAN_OPTIONS": options},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.timeout(scaled(300, 3600))
def test_nine_threads_race_for_nothing_and_everything_adds_up(program, record_figure):
    """Order of messages, counts and frames are checked by the program itself."""
    done = run(program, ROUNDS, timeout=scaled(240.0, 3500.0))
    assert done.returncode == 0, done.stdout + done.stderr[-8000:]
    messages, requests = (int(word) for word in done.stdout.split() if word.isdigit())
    assert messages > 3 * ROUNDS
    assert requests > 10
    record_figure("data races of the lock protocol", 0, f"in {messages} messages", goal="0")


@pytest.mark.parametrize("lock", LOCKS)
def test_leaving_out_one_lock_is_noticed(program, lock):
    """The control: without any one of the locks there is a race, and the sanitizer says so."""
    done = run(program, FEW, lock)
    assert done.returncode == FOUND, (done.returncode, done.stderr[-3000:])
    assert "ThreadSanitizer: data race" in done.stderr or "use-after-free" in done.stderr
