"""Without the GIL, which guards fields of its objects, jetsync is refused at import.

A free-threaded Python begins without the GIL, and turns it on at the first extension module that
does not declare that it can do without; one that was told not to stays without.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys

def is_compiled(name, module):
    return name.startswith("jetsync._core.") and module.__file__.endswith(".so")

sys._is_gil_enabled = lambda: {is_enabled}
import jetsync
"""
AFTER_AN_EXTENSION = "any(is_compiled(*entry) for entry in sys.modules.items())"


def imported(is_enabled: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.format(is_enabled=is_enabled)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_an_interpreter_that_was_told_to_run_without_the_gil_is_refused_in_one_sentence() -> None:
    run = imported("False")
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("RuntimeError: jetsync needs the GIL")


def test_an_interpreter_with_the_gil_is_not() -> None:
    assert imported("True").returncode == 0


def test_a_free_threaded_interpreter_that_turns_the_gil_on_is_not() -> None:
    run = imported(AFTER_AN_EXTENSION)
    assert run.returncode == 0, run.stderr


IN_A_SUB_INTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

one = interpreters.create()
code = (
    "import sys\\nsys.path[:] = %r\\n"
    "try:\\n    import jetsync\\nexcept ImportError as error:\\n    print(error)\\n"
    "else:\\n    print('imported')\\n"
)
import jetsync, sys
interpreters.run_string(one, code % sys.path)
"""


def test_a_sub_interpreter_is_refused_in_one_sentence() -> None:
    command = [sys.executable, "-c", IN_A_SUB_INTERPRETER]
    run = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 1
    assert run.stdout.startswith("jetsync belongs to the interpreter")
