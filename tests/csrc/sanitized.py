"""Run tests on a build with the address and undefined-behaviour sanitizers.

``python -m tests.csrc.sanitized [pytest arguments]``; without arguments everything that
does not need Spark. A copy of the sources is built, so that the modules in use stay as they are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.csrc.build import compiler

ROOT = Path(__file__).parents[2]
PARTS = (
    *("csrc", "docs", "jetsync", "tests"),
    *("setup.py", "pyproject.toml", "pyspark_jetsync.py", "README.md", "CHANGELOG.md", "LICENSE"),
)
EVERYTHING = ("tests",)
# What makes no sense with a preloaded sanitizer, or runs one of its own.
LEFT_OUT = (
    "tests/package/test_docs.py",
    "tests/package/test_hardening.py",
    "tests/core/test_stubs.py",
    "tests/csrc",
    "tests/fuzz",
    "tests/cli",
    "tests/spark",
)
FIRE = tuple(
    f"tests/reliability/test_{name}.py"
    for name in (
        *("forks", "interrupts", "signal_handlers", "closing", "callbacks"),
        *("hostile_blocks", "own_answers", "full_buffer", "shared_by_threads"),
    )
)
"""What drives the core hardest: forks, interrupts, closing under fire, hostile bytes, full buffers.
Some three minutes. The other tests of reliability wait for elections and restarts for an hour, or
measure memory, of which a sanitizer needs several times as much."""


class Copy:
    """A sanitized build of the sources as they are now, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        unwanted = shutil.ignore_patterns("*.so", "*.pyc", "__pycache__")
        for part in PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=unwanted)
            else:
                shutil.copy2(ROOT / part, folder)
        build = ["build_clib", "build_ext", f"-j{os.cpu_count()}", "--inplace"]
        self.run([sys.executable, "setup.py", "-q", *build], JETSYNC_SANITIZE="1")
        # The sanitizer looks for C++ exceptions as it begins: other packages throw some later.
        runtimes = [
            self.run([*compiler(), f"-print-file-name={name}"]).strip()
            for name in ("libasan.so", "libstdc++.so.6")
        ]
        self.environment = {
            "LD_PRELOAD": " ".join(runtimes),
            # The interpreter itself keeps memory till its end, and a size beyond all memory is
            # a MemoryError as without the sanitizer.
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONMALLOC": "malloc",  # one allocation each, so that its ends are seen
            "PYTHONPATH": str(folder),
        }
        where = "import jetsync._core.message as m; print(m.__file__)"
        used = self.run([sys.executable, "-c", where], 60, **self.environment)
        assert str(folder) in used, f"the wrong build is used: {used}"

    def run(self, command: list[str], timeout: float = 600.0, /, **environment: str) -> str:
        """Run something in the copy; an exit code is an AssertionError with what it said."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:]
        return done.stdout

    def pytest_command(self, *arguments: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        # Only Python's own output is captured: what a sanitizer says last must come out.
        others = {
            f"tests/reliability/{path.name}" for path in ROOT.glob("tests/reliability/test_*")
        }
        left_out = [*LEFT_OUT, *sorted(others - set(FIRE))]
        command += ["--capture=sys", *(f"--ignore={path}" for path in left_out)]
        return [*command, *arguments]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arguments", nargs="*", help="for pytest (default: all but Spark)")
    options, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        copy = Copy(Path(name))
        command = copy.pytest_command("--timeout=900", *(options.arguments or EVERYTHING), *more)
        environment = {**os.environ, **copy.environment}
        return subprocess.run(command, cwd=copy.folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
