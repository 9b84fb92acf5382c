"""Run parts of the long form: ``make soak``, ``make soak PART=time``, ``PART="time memory"``.

What each part measured is kept in ``tests/soak/records`` with the commit, the date and how long it
took; ``docs/reliability.md`` is made of these records. A part that fails, that does not end within
ninety minutes, or whose sources change meanwhile keeps no record, and its figures on the page stay
those of the last good run.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.harness import figures, soak
from tests.soak import page
from tests.soak.parts import OPTIONS, PARTS

ROOT = Path(__file__).parents[2]
LONGEST = 90 * 60


def commit() -> str:
    """The commit that is tested; marked where files differ from it, but for the records."""

    def git(*words: str) -> str:
        command = ["git", *words]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return said.stdout.strip()

    found = git("describe", "--always", "--abbrev=10") or "unknown"
    kept = [f":!{place.relative_to(ROOT)}" for place in (page.RECORDS, page.PAGE)]
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *kept)
    return f"{found}-dirty" if changed else found


def run(part: str, arguments: list[str]) -> bool:
    """Run one part to its end; return whether all of it passed."""
    tested = commit()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "figures.jsonl"
        kept.touch()  # a part whose tests record no figure has a record all the same
        environment = {**os.environ, soak.ENVIRONMENT_VARIABLE: "1"}
        environment[figures.ENVIRONMENT_VARIABLE] = str(kept)
        command = [sys.executable, "-m", "pytest", "--timeout", str(LONGEST), *PARTS[part]]
        command += OPTIONS.get(part, [])
        begun = time.monotonic()
        try:
            done = subprocess.run(
                [*command, *arguments], cwd=ROOT, env=environment, timeout=LONGEST, check=False
            )
        except subprocess.TimeoutExpired:
            print(f"soak: {part} did not end within {LONGEST // 60} minutes", file=sys.stderr)
            return False
        if done.returncode:
            print(f"soak: {part} failed", file=sys.stderr)
            return False
        if arguments:
            print(f"soak: {part} passed; no record, since it was run with {arguments}")
            return True
        if commit() != tested:
            print(f"soak: {part} passed; no record: the sources changed meanwhile", file=sys.stderr)
            return False
        record = {
            "part": part,
            "commit": tested,
            "date": datetime.date.today().isoformat(),
            "minutes": round((time.monotonic() - begun) / 60, 1),
            "python": platform.python_version(),
            "processors": os.cpu_count(),
            "figures": [json.loads(line) for line in kept.read_text().splitlines()],
        }
    (page.RECORDS / f"{part}.json").write_text(json.dumps(record, indent=1) + "\n")
    return True


def main() -> int:
    wanted = os.environ.get("PART", "").replace(",", " ").split() or list(PARTS)
    if unknown := [part for part in wanted if part not in PARTS]:
        print(f"soak: no such part: {', '.join(unknown)}; parts: {', '.join(PARTS)}")
        return 2
    good = [run(part, sys.argv[1:]) for part in wanted]
    page.PAGE.write_text(page.text())
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
