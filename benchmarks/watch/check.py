"""Compare instructions per message with the record: ``make watch``, ``make watch ARGS=--record``.

Fails when a case needs more than 20 % more than recorded. Needs valgrind and takes under a minute.
Counts depend on the interpreter, how it was built and how jetsync was compiled (``JETSYNC_QUICK``:
for a check only), so the record has an entry for each kind of them. A kind without an entry is
judged by the nearest one of the same machine, with 60 % allowed for what interpreters differ in.
Without any entry for the machine the check fails. ``PYTHONPATH`` leads to another place than this
checkout where an installed wheel is counted (``.ci/wheels.sh``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.micro.wire import COUNT
from benchmarks.watch.cases import TIMES

RECORD = Path(__file__).parent / "record.json"
ALLOWED = 1.2
ALLOWED_BY_ANOTHER = 1.6


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make watch ARGS=...", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the counts into the record")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        print("valgrind is missing: install the package of that name", file=sys.stderr)
        return 2
    counts, record = count(), json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if options.record:
        record[kind()] = counts
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    judge = nearest(kind(), record)
    if judge is None:
        print(f"there is no record to judge {kind()} by: make one with --record", file=sys.stderr)
        return 2
    if judge != kind():
        print(f"no record of {kind()}: judged by that of {judge} (--record makes one)")
    allowed = ALLOWED if judge == kind() else ALLOWED_BY_ANOTHER
    lines, grown = compare(counts, record[judge], allowed)
    print("\n".join(lines))
    return 1 if grown else 0


def nearest(wanted: str, kinds: Iterable[str]) -> str | None:
    """Return the recorded kind that is most like the wanted one; None when none is comparable.

    Comparable is the same implementation on the same machine. Of several the closest version wins,
    and of one version the same way of building.
    """
    implementation, version, built, machine = wanted.split()

    def distance(kind: str) -> tuple[int, bool, str]:
        _, of, how, _ = kind.split()
        return abs(_minor(of) - _minor(version)), how != built, kind

    comparable = [k for k in kinds if (k.split()[0], k.split()[3]) == (implementation, machine)]
    return min(comparable, key=distance, default=None)


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def kind() -> str:
    """What the counts depend on besides the code: interpreter, how it and jetsync were built,
    machine."""
    flags = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    built = "optimised" if "--enable-optimizations" in flags else "plain"
    if os.environ.get("JETSYNC_QUICK"):
        built += "-quick"
    version = ".".join(platform.python_version_tuple()[:2])
    return f"{platform.python_implementation()} {version} {built} {platform.machine()}"


def compare(
    counts: Mapping[str, float], recorded: Mapping[str, float], allowed: float = ALLOWED
) -> tuple[list[str], list[str]]:
    """Return lines to print, and the cases that need too many instructions now."""
    lines, grown = ["instructions per message"], []
    for case in sorted(set(counts) | set(recorded)):
        before, now = recorded.get(case), counts.get(case)
        if now is None or before is None:
            grown.append(case)
            lines.append(f"  {case:32} {'was not measured' if now is None else 'has no record'}")
            continue
        line = f"  {case:32} {now:8.0f}  recorded {before:8.0f}  {now / before - 1:+.0%}"
        if now > before * allowed:
            grown.append(case)
            line += "  TOO MANY"
        elif now * allowed < before:
            line += "  far fewer: record it"
        lines.append(line)
    return lines, grown


def count() -> dict[str, float]:
    """Run the cases under callgrind; returns instructions per message."""
    with tempfile.TemporaryDirectory() as folder:
        marks = f"{folder}/mark.so"
        source = str(Path(__file__).parent / "mark.c")
        compiler = os.environ.get("CC", "cc")
        run([compiler, "-O2", "-shared", "-fPIC", "-o", marks, source], cwd=folder)
        said = run([
            *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
            f"--callgrind-out-file={folder}/out",
            *(sys.executable, "-m", "benchmarks.watch.cases", marks),
        ], cwd=folder)  # fmt: skip
        names = json.loads(said)
        return read(names, [Path(f"{folder}/out.{n + 1}").read_text() for n in range(len(names))])


def run(command: Sequence[str], *, cwd: str) -> str:
    """Return what a command printed; its path is this process's, so Python imports what this one
    does."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, check=False, cwd=cwd, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def read(names: Sequence[str], dumps: Sequence[str]) -> dict[str, float]:
    """Take the counts from callgrind's files, one per case."""
    counts = {}
    for name, dump in zip(names, dumps, strict=True):
        found = re.search(r"^(?:summary|totals): (\d+)", dump, re.MULTILINE)
        if found is None:
            raise SystemExit(f"callgrind's file of {name!r} has no total")
        counts[name] = round(int(found[1]) / (TIMES * COUNT), 1)
    return counts


if __name__ == "__main__":
    sys.exit(main())
