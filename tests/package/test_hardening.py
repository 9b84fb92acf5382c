"""The compiled modules are hardened: what a hostile publisher might exploit is made hard to use.

Read from the built files themselves, not from the flags they were to be built with.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import jetsync._core

MODULES = sorted(Path(jetsync._core.__path__[0]).glob("*.so"))
SOURCES = {path.stem for path in (Path(__file__).parents[2] / "jetsync/_core").glob("*.pyx")}

on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="ELF is what Linux has; other systems have their own defaults"
)
each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name.split(".")[0])


def readelf(*arguments: str) -> str:
    # Part of binutils, which every compiler needs, so it is wherever these modules were built.
    program = shutil.which("readelf")
    assert program
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def imported(path: Path) -> set[str]:
    """The names that a module takes from elsewhere, such as the C library."""
    found = re.findall(r" UND (\w+)", readelf("-W", "--dyn-syms", str(path)))
    assert found
    return set(found)


def test_there_is_something_to_look_at():
    assert {path.name.split(".")[0] for path in MODULES} >= SOURCES >= {"inbound", "outbound"}


@on_linux
@each_module
def test_a_module_has_full_relro(path):
    """What the loader filled in cannot be written any more, and all of it is filled in at once."""
    program, dynamic = readelf("-W", "-l", str(path)), readelf("-W", "-d", str(path))
    assert "GNU_RELRO" in program
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(BIND_NOW\)|FLAGS_1.*NOW", dynamic)


@on_linux
@each_module
def test_no_memory_of_a_module_is_writable_and_executable(path):
    program = readelf("-W", "-l", str(path)).splitlines()
    stack = next(line for line in program if "GNU_STACK" in line)
    assert "RWE" not in stack
    loaded = [line for line in program if line.split()[:1] == ["LOAD"]]
    assert loaded
    assert not any("RWE" in line for line in loaded)


@on_linux
@each_module
def test_a_module_is_found_and_finds_nothing_by_a_path_of_its_own(path):
    """A RPATH lets a user who can write there replace libraries; TEXTREL makes code writable."""
    dynamic = readelf("-W", "-d", str(path))
    assert "TEXTREL" not in dynamic
    # Some interpreters give the path of their own library to everything built with them.
    given = " ".join(str(sysconfig.get_config_var(name)) for name in ("LDSHARED", "LDFLAGS"))
    for paths in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", dynamic):
        assert all(f"-rpath,{path}" in given for path in paths.split(":")), paths


@on_linux
@each_module
def test_a_module_exports_only_its_init_function(path):
    exported = [
        line.split()[-1]
        for line in readelf("-W", "--dyn-syms", str(path)).splitlines()
        if " GLOBAL " in line and " DEFAULT " in line and " UND " not in line
    ]
    assert exported == [f"PyInit_{path.name.split('.')[0]}"]


@on_linux
@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="shadow stacks are x86's; the other flags are checked"
)
@each_module
def test_a_module_may_run_with_a_shadow_stack(path):
    """The processor then compares every return with where the call came from."""
    assert "SHSTK" in readelf("-W", "-n", str(path))


@on_linux
def test_stack_protector_and_fortify_are_compiled_in():
    """Wherever there is an array on the stack, or a call that FORTIFY can check."""
    used = {path.name.split(".")[0]: imported(path) for path in MODULES}
    assert {name for name, names in used.items() if "__stack_chk_fail" in names} == set(used)
    assert any("__memcpy_chk" in names for names in used.values())
    # Nothing that has no way of knowing how much room there is.
    unbounded = {"strcpy", "strcat", "sprintf", "vsprintf", "gets", "scanf"}
    assert not any(names & unbounded for names in used.values())
