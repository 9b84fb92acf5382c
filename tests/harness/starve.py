"""Builds starve.c, by which a process is refused memory, and runs programs with it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.csrc.build import ROOT, clean_environment, compiler, run_tool
from tests.harness.places import SEARCH_PATH

__all__ = ["needs_glibc", "starved"]

needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="puts itself in front of glibc's malloc; the C suites fail allocations themselves",
)


def starved(module: str, folder: Path, *arguments: str, limit: float = 120.0) -> dict[str, int]:
    """Run ``python -m module LIBRARY ARGUMENTS``; return the counts that it prints."""
    library = str(build_starve(folder))
    done = subprocess.run(
        [sys.executable, "-m", module, library, *arguments],
        env={
            **clean_environment(),
            "LD_PRELOAD": library,
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": SEARCH_PATH,
        },
        cwd=folder,  # not the checkout, which would come before an installed wheel
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-8000:]
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def build_starve(folder: Path) -> Path:
    """Compile the library that is preloaded; returns where it is."""
    path = folder / "starve.so"
    include = sysconfig.get_paths()["include"]
    run_tool([
        *compiler(), "-std=gnu11", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror",
        f"-I{include}", str(ROOT / "tests/harness/starve.c"), "-o", str(path),
    ])  # fmt: skip
    return path
