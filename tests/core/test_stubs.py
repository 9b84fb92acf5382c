"""The stubs of the compiled modules say what the modules are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "jetsync/_core"
MODULES = sorted(path.stem for path in CORE.glob("*.pyx"))

# Names that Cython adds, classes that only Cython sees, and a property of every extension class
# (newer checkers want it marked) for which older Pythons have no word.
ALLOWED = r"""
jetsync\._core\.[\w.]+\.__(pyx_capi__|test__|reduce_cython__|setstate_cython__)
jetsync\._core\.message\.MessageFactory
jetsync\._core\.\w+\.[A-Z]\w+
"""


def test_every_compiled_module_has_a_stub():
    assert sorted(path.stem for path in CORE.glob("*.pyi")) == MODULES


def test_the_stubs_match_the_compiled_modules(tmp_path):
    allowed = tmp_path / "allowed.txt"
    allowed.write_text(ALLOWED)
    names = [f"jetsync._core.{module}" for module in MODULES]
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "mypy.stubtest", "--allowlist", str(allowed), "--ignore-unused-allowlist"),
            *("--mypy-config-file", "pyproject.toml", "--concise", *names),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
