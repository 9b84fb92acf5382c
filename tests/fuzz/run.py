"""Fuzz the C library: ``python -m tests.fuzz.run [--seconds 300] [--target parser]``.

With a clang, libFuzzer drives each target by the coverage it reaches, and ``--corpus FOLDER``
keeps worthwhile inputs and findings there from run to run. Without one the targets are fed
mutations of the same seeds by a plain driver. A finding ends with exit code 1 and says how to
repeat it.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.fuzz.corpus import TARGETS
from tests.fuzz.engine import Guided, Outcome, Plain, libfuzzer

PLAIN_RATE = 10_000  # inputs per second that the plain driver surely manages


def main() -> int:
    parser = argparse.ArgumentParser(description="fuzz the C library")
    parser.add_argument("--seconds", type=float, default=300.0, help="for all (default 300)")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="default: all")
    parser.add_argument("--corpus", type=Path, default=None, help="folder to keep inputs in")
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
    return report(outcomes)


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
