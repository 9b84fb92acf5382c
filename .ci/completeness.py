"""Whether pyright knows the type of nearly every public name of the installed jetsync.

    python .ci/completeness.py

A name without a known type is one that an editor cannot complete and a strict type checker calls
unknown. Types of packages that are not installed do not count. Where the figure is too low, the
names that lower it are listed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WANTED = 0.97


def report() -> dict[str, object]:
    """What pyright says of the package that this Python imports."""
    tools = Path(sys.executable).parent
    # It takes the first Python on PATH, whatever its option --pythonpath says, and looks into the
    # current folder before the installed packages.
    path = os.pathsep.join([str(tools), os.environ.get("PATH", os.defpath)])
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [tools / "pyright", "--verifytypes", "jetsync", "--ignoreexternal", "--outputjson"],
            cwd=elsewhere, env={**os.environ, "PATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    try:
        found: dict[str, object] = json.loads(done.stdout)
    except ValueError:
        sys.exit(f"pyright failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def main() -> int:
    found = report()["typeCompleteness"]
    assert isinstance(found, dict)
    exported = [symbol for symbol in found["symbols"] if symbol["isExported"]]
    bare = [s["name"] for s in exported if not s["isTypeKnown"] or s["isTypeAmbiguous"]]
    share = found["completenessScore"]
    print(f"{len(exported)} public names, {share:.1%} of them with a known type")
    if share >= WANTED:
        return 0
    print(f"that is less than {WANTED:.0%}; without one, or with one that is inferred:")
    print(*bare, sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
