"""The extension's unit tests under Valgrind's memcheck: no decision depends on memory that was
never written, which the other sanitizers do not see, and nothing foreign is read or written.

The modules are those that the other tests run on, with their optimisation. What memcheck says of
the interpreter and of other packages is not judged; test_csrc and test_memory find leaks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest

import jetsync
from tests.csrc.build import compiler, run_tool
from tests.harness.figures import short_form
from tests.harness.soak import SOAKING

ROOT = Path(__file__).parents[2]
UNIT_TESTS = ("tests/core", "tests/wire/test_golden.py", "tests/wire/test_vectors.py")

UNSET = """
#include <stdlib.h>
int decide(void) {
    volatile int *value = malloc(sizeof *value);
    if (value[0] == 1)
        return 1;
    free((void *)value);
    return 0;
}
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(5400),
    pytest.mark.skipif(not SOAKING, reason="make soak; each commit has test_sanitized"),
]


def errors(modules: Path, log: Path, arguments: Sequence[str]) -> list[str]:
    """Run Python under memcheck; returns each error in whose stack a library below `modules` is."""
    memcheck = ["valgrind", "--tool=memcheck", "--show-leak-kinds=none", "--num-callers=40"]
    memcheck += ["--fair-sched=yes", "--child-silent-after-fork=yes"]
    memcheck += ["--xml=yes", f"--xml-file={log}"]
    done = subprocess.run(
        [*memcheck, sys.executable, *arguments],
        cwd=ROOT,
        # One allocation each, so that memcheck knows what of it was written.
        env=short_form(PYTHONMALLOC="malloc", PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return [
        ET.tostring(error, encoding="unicode")
        for error in ET.parse(log).getroot().iter("error")
        if any(str(modules) in (library.text or "") for library in error.iter("obj"))
    ]


@pytest.fixture(autouse=True)
def valgrind():
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind; test_sanitized runs the same tests")


def test_a_decision_by_what_was_never_written_is_found(tmp_path):
    source, library = tmp_path / "unset.c", tmp_path / "unset.so"
    source.write_text(UNSET)
    run_tool([*compiler(), "-g", "-O0", "-shared", "-fPIC", str(source), "-o", str(library)])
    call = f"import ctypes; ctypes.CDLL({str(library)!r}).decide()"
    (found,) = errors(tmp_path, tmp_path / "errors.xml", ["-c", call])
    assert "<fn>decide</fn>" in found


def test_the_unit_tests_of_the_extension_are_clean(tmp_path):
    modules = Path(jetsync.__file__).parent
    pytest_options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not timed", "--timeout=3000"]
    found = errors(modules, tmp_path / "errors.xml", ["-m", "pytest", *pytest_options, *UNIT_TESTS])
    assert found == []
