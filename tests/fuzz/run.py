"""Fuzz the C library: ``python -m tests.fuzz.run [--seconds 300] [--seed N]``.

Builds csrc and fuzz.c with the address and undefined-behaviour sanitizers and feeds them mutated
golden frames until the time is over. A finding ends it and prints the command that repeats it.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.csrc.build import build, golden_file

SOURCE = Path(__file__).parent / "fuzz.c"


def main() -> int:
    parser = argparse.ArgumentParser(description="fuzz the C library")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long (default 300)")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder, "fuzz", [SOURCE])
        print(f"fuzzing for {options.seconds:g} s with seed {seed}", flush=True)
        command = [str(program), str(seed), "0", str(golden_file(folder)), str(options.first)]
        process = subprocess.Popen(command)
        try:
            code = process.wait(options.seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            print("nothing found")
            return 0
    print(f"found something (exit {code}); the input's number is above. Repeat it with")
    print(f"  python -m tests.fuzz.run --seed {seed} --first NUMBER --seconds 5")
    return 1


if __name__ == "__main__":
    sys.exit(main())
