"""Builds starve.c, by which a process is refused memory."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from tests.csrc.build import ROOT, compiler, run_tool

__all__ = ["build_starve"]


def build_starve(folder: Path) -> Path:
    """Compile the library that is preloaded; returns where it is."""
    path = folder / "starve.so"
    include = sysconfig.get_paths()["include"]
    run_tool([
        *compiler(), "-std=gnu11", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror",
        f"-I{include}", str(ROOT / "tests/harness/starve.c"), "-o", str(path),
    ])  # fmt: skip
    return path
