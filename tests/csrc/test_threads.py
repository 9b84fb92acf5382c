"""The threads of a connection on csrc/link as it is: no data race, and every lock is needed.

The library is compiled with the thread sanitizer, and with a switch that leaves out one use of a
lock or an atomic, known by its file and line. Without any one of them the sanitizer, or a check of
the program itself, must find something.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.csrc.build import (
    LINK,
    THREADS,
    build_program,
    clean_environment,
    compile_library,
    compile_link,
)
from tests.harness.soak import scaled

HERE = Path(__file__).parent / "threads"
ROUNDS = scaled(1_000, 100_000)
FEW = (1_000, 4_000, 16_000)  # rounds in which a missing lock must be noticed
FOUND = 66  # what the sanitizer exits with
LIBRARY = (*THREADS, "-DLINK_MUTATION", f"-I{HERE}")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="gcc's thread sanitizer is Linux's; tests/core/test_stress.py runs",
)


def sites() -> list[str]:
    """Every use of a lock or an atomic in the library, as "file:line"."""
    use = re.compile(r"\blink_(lock|enter|try_lock|load|store|swap|take_if)\(")
    found = []
    for path in sorted(LINK.glob("link_*")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if use.search(line) and not line.lstrip().startswith(("#", "*", "/*")):
                found.append(f"{path.name}:{number}")
    assert len(found) > 50
    return found


def some(of: list[str]) -> list[str]:
    """The first use in each file: what is tried after each change; the rest once a night."""
    names = [site.split(":")[0] for site in of]
    return [site for n, site in enumerate(of) if names.index(names[n]) == n]


def built(folder: Path, *flags: str) -> Path:
    objects = [
        *compile_library(folder, THREADS),
        *compile_link(folder, (*LIBRARY, *flags)),
    ]
    sources = sorted(HERE.glob("*.c"))
    return build_program(folder, "threads", sources, objects, (*LIBRARY, *flags), ["-pthread"])


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return built(tmp_path_factory.mktemp("threads"))


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


def check_clean(done) -> tuple[int, int]:
    assert done.returncode == 0, done.stdout + done.stderr[-8000:]
    messages, frames = (int(word) for word in done.stdout.split() if word.isdigit())
    assert messages > 3 * ROUNDS
    assert frames > ROUNDS / 10
    return messages, frames


@pytest.mark.timeout(scaled(300, 3600))
def test_the_threads_of_a_connection_race_for_nothing_and_everything_adds_up(
    program, record_figure
):
    """Order of messages, counts and frames are checked by the program itself."""
    done = run(program, ROUNDS, timeout=scaled(240.0, 3500.0))
    reports = done.stderr.count("WARNING: ThreadSanitizer")
    record_figure("csrc/link: reports of the thread sanitizer", reports, goal="0")
    messages, frames = check_clean(done)
    record_figure("csrc/link: messages taken meanwhile", messages)
    record_figure("csrc/link: frames sent meanwhile", frames)


@pytest.mark.timeout(scaled(300, 3600))
@pytest.mark.skipif(
    not os.environ.get("JETSYNC_SOAK"), reason="make soak; each commit races with futexes"
)
def test_where_there_is_no_futex_they_race_for_nothing_either(tmp_path):
    check_clean(run(built(tmp_path, "-DLINK_PORTABLE"), ROUNDS, timeout=scaled(240.0, 3500.0)))


def test_the_threads_come_to_every_lock_and_atomic(program):
    """What no thread of the program uses is not shown to be needed, nor free of races."""
    done = run(program, 1_000, "all")
    assert done.returncode == 0, done.stderr[-8000:]
    missed = set(sites()) - set(done.stderr.split())
    assert not missed


def is_noticed(program: Path, site: str, patience: float) -> str:
    """How a library without this lock or atomic fails; "" when it does not. It hangs when a
    thousand rounds take longer than ``patience`` seconds."""
    for rounds in FEW:
        try:
            done = run(program, rounds, site, timeout=patience * rounds / 1_000)
        except subprocess.TimeoutExpired:
            return "it hangs"
        if done.returncode:
            return f"exit {done.returncode}"
    return ""


@pytest.mark.timeout(scaled(300, 3600))
def test_leaving_out_any_one_lock_or_atomic_is_noticed(program, record_figure):
    tried = scaled(some(sites()), sites())
    begun = time.monotonic()
    assert run(program, 1_000).returncode == 0
    # A slow machine is no hang: a lock that is not needed would pass for one that is.
    patience = 10.0 + 20 * (time.monotonic() - begun)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = dict(
            zip(
                tried,
                pool.map(lambda site: is_noticed(program, site, patience), tried),
                strict=True,
            )
        )
    unnoticed = [site for site, how in outcomes.items() if not how]
    record_figure(
        "locks and atomics left out, unnoticed", len(unnoticed), f"of {len(tried)}", goal="0"
    )
    assert not unnoticed
