"""A program that finds no more packages than ``pip install "jetsync[demo]"`` brings."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOREIGN = "JETSYNC_TEST_FOREIGN"
HIDING = f"""
import os, sys
from importlib.machinery import PathFinder

hidden = frozenset(os.environ["{FOREIGN}"].split())

class Rest(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        known = name.partition(".")[0] not in hidden
        return super().find_spec(name, path, target) if known else None

sys.meta_path[:] = [Rest if finder is PathFinder else finder for finder in sys.meta_path]
"""


def brought_by(text: str) -> set[str]:
    """The distributions that a requirement brings, and those that these bring."""
    found: set[str] = set()
    left = [(Requirement(text), "")]
    while left:
        requirement, extra = left.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        seen = name in found
        found.add(name)
        if seen and not requirement.extras:
            continue
        for more in metadata.requires(name) or ():
            left += [(Requirement(more), one) for one in requirement.extras or {""}]
    return found


def without_others(folder: Path) -> dict[str, str]:
    """Return the environment of a program, and of its Python processes, to which the modules of all
    other packages that are installed are not there."""
    allowed = brought_by("jetsync[demo]")
    foreign = [
        module
        for module, owners in metadata.packages_distributions().items()
        if not allowed & {canonicalize_name(owner) for owner in owners}
    ]
    assert {"hypothesis", "duckdb", "pytest"} <= set(foreign)
    assert not {"pyspark", "pandas", "matplotlib", "py4j", "numpy"} & set(foreign)
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDING)
    path = filter(None, (str(folder), os.environ.get("PYTHONPATH")))
    return {FOREIGN: " ".join(foreign), "PYTHONPATH": os.pathsep.join(path)}
