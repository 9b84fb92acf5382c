"""Fuzz the C library: ``python -m tests.fuzz.run [--seconds 300] [--target parser]``.

All targets are fed for most of that time; for a tenth of it the objects of the extension types are
used with arguments drawn by lot (tests/fuzz/objects.py).

With a clang, libFuzzer drives each target by the coverage it reaches, and ``--corpus FOLDER``
keeps worthwhile inputs and findings there from run to run. Without one the targets are fed
mutations of the same seeds by a plain driver. A finding ends with exit code 1 and says how to
repeat it.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.corpus import TARGETS
from tests.fuzz.engine import Guided, Outcome, Plain, libfuzzer

PLAIN_RATE = 10_000  # inputs per second that the plain driver surely manages
CALL_RATE = 1_000  # calls per second of random objects, likewise
CALLS_AT_ONCE = 20_000


def main() -> int:
    parser = argparse.ArgumentParser(description="fuzz the C library")
    parser.add_argument("--seconds", type=float, default=300.0, help="for all (default 300)")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="default: all")
    parser.add_argument("--corpus", type=Path, default=None, help="folder to keep inputs in")
    parser.add_argument("--objects", type=int, default=None, help="calls of random objects")
    options = parser.parse_args()
    seed = secrets.randbits(31) if options.seed is None else options.seed
    targets = options.target or list(TARGETS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if clang := libfuzzer():
            print(f"libFuzzer ({clang}), seed {seed}, {options.seconds:g} s", flush=True)
            corpus = None if options.corpus is None else options.corpus.resolve()
            outcomes = Guided(folder).fuzz_all(targets, options.seconds, seed, corpus)
        else:
            print(f"no clang with libFuzzer: plain mutations, seed {seed}", flush=True)
            inputs = int(options.seconds * PLAIN_RATE / len(targets))
            plain = Plain(folder)
            outcomes = [plain.fuzz(target, inputs, seed) for target in targets]
    calls = options.objects
    if calls is None:
        calls = 0 if options.target else int(options.seconds / 10 * CALL_RATE)
    return play_objects(seed, calls) or report(outcomes)


def play_objects(seed: int, calls: int) -> int:
    """Use random objects in processes of their own; 1 when one crashed or hung."""
    for part, start in enumerate(range(0, calls, CALLS_AT_ONCE)):
        count = min(CALLS_AT_ONCE, calls - start)
        command = [sys.executable, "-m", "tests.fuzz.objects", str(seed + part), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"BROKEN: {' '.join(command[1:])}\n{done.stderr[-3000:]}")
            return 1
    print(f"objects  holds  {calls:12,} calls")
    return 0


def report(outcomes: list[Outcome]) -> int:
    for one in outcomes:
        state = "BROKEN" if one.broken else "holds"
        print(f"{one.target:8} {state:6} {one.executions:12,} inputs {one.rate:12,.0f} per second")
    print(f"{'all':15} {sum(o.executions for o in outcomes):12,} inputs")
    for one in outcomes:
        if one.broken:
            print(one.broken)
    return 1 if any(one.broken for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
