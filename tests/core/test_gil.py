"""Without the GIL, which guards fields of its objects, jetsync is refused at import."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys._is_gil_enabled = lambda: {enabled}
import jetsync
"""


def imported(enabled: bool) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.format(enabled=enabled)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_an_interpreter_that_was_told_to_run_without_the_gil_is_refused_in_one_sentence() -> None:
    run = imported(False)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("RuntimeError: jetsync needs the GIL")


def test_an_interpreter_with_the_gil_is_not() -> None:
    assert imported(True).returncode == 0


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
