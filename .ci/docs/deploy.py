"""Add the documentation of one version to the branch gh-pages; `latest` leads to the highest one.

    python .ci/docs/deploy.py v1.2.3 [--push] [--branch NAME]

Patches of one minor version share a place: 1.2.3 replaces the pages of 1.2.2, below /1.2/.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CONFIGURATION = Path(__file__).with_name("mkdocs.yml")


def place(tag: str) -> str:
    """The folder of a version: its major and minor number."""
    found = re.fullmatch(r"v?(\d+\.\d+)\.\d+", tag)
    if found is None:
        raise SystemExit(f"{tag!r} is no version like v1.2.3")
    return found[1]


def is_latest(version: str, others: Iterable[str]) -> bool:
    """Whether no version that has pages is higher. A patch of an older one changes only its own."""

    def number(name: str) -> tuple[int, ...]:
        return tuple(int(part) for part in name.split("."))

    return all(number(version) >= number(other) for other in others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tag")
    parser.add_argument("--push", action="store_true", help="push the branch to origin")
    parser.add_argument("--branch", default="gh-pages")
    asked = parser.parse_args()
    tools = Path(sys.executable).parent
    found = f"{tools}{os.pathsep}{os.environ['PATH']}"  # mike looks for mkdocs there
    environment = {**os.environ, "PATH": found}
    mike = [tools / "mike"]
    common = ["--config-file", CONFIGURATION, "--branch", asked.branch]
    push = ["--push"] if asked.push else []
    version = place(asked.tag)

    def run(*words: object, **how: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*mike, *words], env=environment, check=True, text=True, **how)

    listed = run("list", "--json", *common, stdout=subprocess.PIPE).stdout
    known = [each["version"] for each in json.loads(listed)]
    alias = ["latest"] if is_latest(version, known) else []
    run("deploy", "--update-aliases", "--alias-type", "copy", *common, *push, version, *alias)
    if alias:
        run("set-default", *common, *push, "latest")


if __name__ == "__main__":
    main()
