"""Run the tests in lanes: ``python -m tests.lanes [parallel|timed] [pytest arguments]``.

First everything that may run beside other tests, in three processes more than there are processors
(five to seven), because most tests wait more than they compute; then, alone, what is marked
``timed`` because it measures time. Reports with the duration of every test go to ``build/tests``,
and so do the last lines of the output, each failure of each lane: ``summary.txt``, or
``summary-parallel.txt`` where one lane was asked for, as continuous integration does. The exit code
is that of the first lane that failed.
"""

from __future__ import annotations

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
MOST_LINES = 90
FAILED = 1
NOTHING_TO_RUN = 5
MOST_UNSTEADY = 3
PROCESSES = str(min(4, max(2, os.cpu_count() or 1)) + 3)

LANES = {
    "parallel": ["-m", "not timed", "--beside", PROCESSES],
    "timed": ["-m", "timed"],
}


def run(lane: str, arguments: list[str]) -> int:
    report = ["-q", "-p", "tests.harness.brief", f"--junitxml={REPORTS / lane}.xml"]
    report += ["--durations=10", "--durations-min=2"]
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
    only, arguments = sys.argv[1:2], sys.argv[2:]
    if not only or only[0] not in LANES:
        only, arguments = [], sys.argv[1:]
    REPORTS.mkdir(parents=True, exist_ok=True)
    for name in (UNSTEADY, FAILURES):
        (REPORTS / name).write_text("", encoding="utf-8")
    codes, took = [], []
    for lane in only or LANES:
        begun = time.monotonic()
        codes.append(run(lane, arguments))
        took.append(f"{lane} {time.monotonic() - begun:.0f} s")
        if codes[-1] == 2:  # interrupted
            break
    said = summary(took)
    (REPORTS / "-".join(["summary", *only])).with_suffix(".txt").write_text(said, encoding="utf-8")
    print(said, end="", flush=True)
    if all(code == NOTHING_TO_RUN for code in codes):
        return NOTHING_TO_RUN
    return next((code for code in codes if code not in (0, NOTHING_TO_RUN)), 0)


if __name__ == "__main__":
    sys.exit(main())
