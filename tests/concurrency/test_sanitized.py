"""The tests of the compiled core once more, with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.csrc.build import compiler

ROOT = Path(__file__).parents[2]
PARTS = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "csrc", "jetsync", "tests")
TESTS = ("tests/unit/core", "tests/protocol", "tests/concurrency/test_stress.py")


def run(command, folder, **environment):
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the sanitizer is preloaded as Linux does it")
def test_the_core_is_clean_under_the_sanitizers(tmp_path):
    """A copy of the sources is built, so that the modules in use stay as they are."""
    unwanted = shutil.ignore_patterns("*.so", "*.pyc", "__pycache__")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tmp_path / part, ignore=unwanted)
        else:
            shutil.copy2(ROOT / part, tmp_path)
    build = ["build_clib", "build_ext", f"-j{os.cpu_count()}", "--inplace"]
    run([sys.executable, "setup.py", "-q", *build], tmp_path, JETSYNC_SANITIZE="1")

    runtime = run([*compiler(), "-print-file-name=libasan.so"], tmp_path).strip()
    where = "import jetsync._core.message as m; print(m.__file__)"
    options = {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter itself keeps memory till its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # one allocation each, so that its ends are seen
        "PYTHONPATH": str(tmp_path),
    }
    assert str(tmp_path) in run([sys.executable, "-c", where], tmp_path, **options)
    pytest_run = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    # Only Python's own output is captured: what a sanitizer says last must come out.
    pytest_run += ["--capture=sys", "--ignore=tests/unit/core/test_stubs.py", *TESTS]
    assert " passed" in run(pytest_run, tmp_path, **options)
