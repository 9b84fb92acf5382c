"""Before a release: the tag, the version and the changelog name the same version.

python .ci/release.py v1.2.3
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def faults(tag: str, version: str, changelog: str) -> list[str]:
    """What keeps ``tag`` from being released; empty when nothing does."""
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, jetsync/_version.py has {version}")
    released = re.findall(r"^## \[([^\]]+)\]", changelog, re.M)
    newest = [name for name in released if name.lower() != "unreleased"][:1]
    if newest != [version]:
        found.append(f"the newest version in CHANGELOG.md is {newest}, not {version}")
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## \[|\Z)", changelog, re.M | re.S)
    if unreleased is not None and unreleased[1].strip():
        found.append("CHANGELOG.md still has changes below [Unreleased]")
    return found


def main(tag: str) -> int:
    source = (ROOT / "jetsync/_version.py").read_text()
    (version,) = re.findall(r'__version__ = "([^"]+)"', source)
    found = faults(tag, version, (ROOT / "CHANGELOG.md").read_text())
    print("\n".join(found) or f"jetsync {version} can be released")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
