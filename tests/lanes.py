"""Run the tests as continuous integration does: ``python -m tests.lanes [pytest arguments]``.

First everything that may run beside other tests, in two processes more than there are processors
(four to six), because most tests wait more than they compute; then, alone, what is marked ``timed``
because it measures time: before it, the end of every process is awaited that holds a shared lock on
the file that ``JETSYNC_BESIDE`` names, such as the other checks of ``.ci/run``. Reports with the
duration of every test go to ``build/tests``, and so does ``summary.txt``, the last lines of the
output: each failure of each lane. The exit code is that of the first lane that failed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.harness import brief

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "build" / "tests"
UNSTEADY = "unsteady.txt"
FAILURES = "failures.txt"
SUMMARY = "summary.txt"
MOST_LINES = 90
FAILED = 1
NOTHING_TO_RUN = 5
MOST_UNSTEADY = 3
BESIDE = "JETSYNC_BESIDE"
PROCESSES = str(min(4, max(2, os.cpu_count() or 1)) + 2)

LANES = {
    "parallel": ["-m", "not timed", "-n", PROCESSES, "--no-loadscope-reorder"],
    "timed": ["-m", "timed"],
}


def run(lane: str, arguments: list[str]) -> int:
    report = ["-q", "-p", "tests.harness.brief", "-p", "tests.harness.skips"]
    report += [f"--junitxml={REPORTS / lane}.xml", "--durations=10", "--durations-min=2"]
    # What is drawn at random is the same each time; one file on its own draws anew.
    report += ["--hypothesis-profile=ci"]
    cache = REPORTS / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    report += ["-o", f"cache_dir={cache}"]
    # The few files of the timed lane are soon read; all of the tests are not.
    places = timed_files() if lane == "timed" and not arguments else []
    command = [sys.executable, "-m", "pytest", *LANES[lane], *report, *arguments, *places]
    environment = {**os.environ, brief.ENVIRONMENT_VARIABLE: str(REPORTS / FAILURES)}
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    return again(cache) if code == FAILED else code


def wait_until_alone() -> None:
    if path := os.environ.get(BESIDE):
        with open(path, "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def timed_files() -> list[str]:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file) for file in files if "mark.timed" in file.read_text(encoding="utf-8")]


def again(cache: Path) -> int:
    """Run what failed once more, if it is little; returns the exit code that counts."""
    failed = list(json.loads((cache / "v/cache/lastfailed").read_text()))
    if len(failed) > MOST_UNSTEADY:
        return FAILED
    print(f"lanes: once more, alone: {', '.join(failed)}", flush=True)
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *failed]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        return FAILED
    with (REPORTS / UNSTEADY).open("a", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in failed)
    return 0


def summary(took: list[str]) -> str:
    """Return each failure of each lane, those that passed when run once more, and the times."""
    failures = (REPORTS / FAILURES).read_text(encoding="utf-8").splitlines()
    if len(failures) > MOST_LINES:  # too many for what each said: their names
        failures = [line for line in failures if not line.startswith(" ")]
    unsteady = (REPORTS / UNSTEADY).read_text(encoding="utf-8").splitlines()
    last = f"lanes: {', '.join(took)}; unsteady: {', '.join(unsteady) or 'none'}"
    return "\n".join([*(["lanes: failed:"] if failures else []), *failures, last, ""])


def main() -> int:
    REPORTS.mkdir(parents=True, exist_ok=True)
    for name in (UNSTEADY, FAILURES):
        (REPORTS / name).write_text("", encoding="utf-8")
    codes, took = [], []
    for lane in LANES:
        if lane == "timed":
            wait_until_alone()
        begun = time.monotonic()
        codes.append(run(lane, sys.argv[1:]))
        took.append(f"{lane} {time.monotonic() - begun:.0f} s")
        if codes[-1] == 2:  # interrupted
            break
    said = summary(took)
    (REPORTS / SUMMARY).write_text(said, encoding="utf-8")
    print(said, end="", flush=True)
    if all(code == NOTHING_TO_RUN for code in codes):
        return NOTHING_TO_RUN
    return next((code for code in codes if code not in (0, NOTHING_TO_RUN)), 0)


if __name__ == "__main__":
    sys.exit(main())
