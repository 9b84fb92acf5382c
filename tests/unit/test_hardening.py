"""The compiled modules are hardened: what a hostile publisher might exploit is made hard to use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jetsync._core

MODULES = sorted(Path(jetsync._core.__path__[0]).glob("*.so"))


def readelf(*arguments: str) -> str:
    # Part of binutils, which every compiler needs, so it is wherever these modules were built.
    program = shutil.which("readelf")
    assert program
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def test_there_is_something_to_look_at():
    assert {path.name.split(".")[0] for path in MODULES} >= {"inbound", "outbound", "mailbox"}


@pytest.mark.skipif(sys.platform != "linux", reason="ELF is what Linux has")
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name.split(".")[0])
def test_a_module_has_full_relro_and_no_executable_stack(path):
    program = readelf("-W", "-l", str(path))
    dynamic = readelf("-W", "-d", str(path))
    assert "GNU_RELRO" in program
    assert "BIND_NOW" in dynamic or "NOW" in dynamic
    stack = next(line for line in program.splitlines() if "GNU_STACK" in line)
    assert "RWE" not in stack


@pytest.mark.skipif(sys.platform != "linux", reason="ELF is what Linux has")
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name.split(".")[0])
def test_a_module_exports_only_its_init_function(path):
    exported = [
        line.split()[-1]
        for line in readelf("-W", "--dyn-syms", str(path)).splitlines()
        if " GLOBAL " in line and " DEFAULT " in line and " UND " not in line
    ]
    assert exported == [f"PyInit_{path.name.split('.')[0]}"]


@pytest.mark.skipif(sys.platform != "linux", reason="ELF is what Linux has")
def test_stack_protector_is_compiled_in():
    assert any("__stack_chk_fail" in readelf("-W", "--dyn-syms", str(path)) for path in MODULES)
