"""Compare instructions per message with the record: ``make watch``, ``make watch ARGS=--record``.

Fails when a case needs more than 20 % more than recorded. Needs valgrind and takes under a minute.
Counts depend on the interpreter and the compiler, so the record has an entry for each kind of them;
for a kind without one the counts are shown and nothing is judged.
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
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.micro.wire import COUNT
from benchmarks.watch.cases import TIMES

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).parent / "record.json"
ALLOWED = 1.2


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
    recorded = record.get(kind())
    if recorded is None:
        print(f"no record for {kind()}: nothing is judged (--record makes one)")
    lines, grown = compare(counts, recorded or {})
    print("\n".join(lines))
    return 1 if grown else 0


def kind() -> str:
    """What the counts depend on besides the code: interpreter, how it was built, machine."""
    flags = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    built = "optimised" if "--enable-optimizations" in flags else "plain"
    version = ".".join(platform.python_version_tuple()[:2])
    return f"{platform.python_implementation()} {version} {built} {platform.machine()}"


def compare(
    counts: Mapping[str, float], recorded: Mapping[str, float]
) -> tuple[list[str], list[str]]:
    """Return lines to print, and the cases that need too many instructions now."""
    lines, grown = ["instructions per message"], []
    for case, now in counts.items():
        before = recorded.get(case)
        line = f"  {case:32} {now:8.0f}"
        if before is not None:
            line += f"  recorded {before:8.0f}  {now / before - 1:+.0%}"
            if now > before * ALLOWED:
                grown.append(case)
                line += "  TOO MANY"
            elif now * ALLOWED < before:
                line += "  far fewer: record it"
        lines.append(line)
    return lines, grown


def count() -> dict[str, float]:
    """Run the cases under callgrind; returns instructions per message."""
    with tempfile.TemporaryDirectory() as folder:
        marks = f"{folder}/mark.so"
        source = str(Path(__file__).parent / "mark.c")
        _run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", marks, source])
        said = _run([
            *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
            f"--callgrind-out-file={folder}/out",
            *(sys.executable, "-m", "benchmarks.watch.cases", marks),
        ])  # fmt: skip
        names = json.loads(said)
        return read(names, [Path(f"{folder}/out.{n + 1}").read_text() for n in range(len(names))])


def _run(command: Sequence[str]) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True
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
