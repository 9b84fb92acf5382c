"""The C library on its own: unit tests in C, run under the address and UB sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.csrc.build import (
    CANNOT_LOOK,
    MEMORY,
    build,
    build_program,
    clean_environment,
    execute,
    golden_file,
    run,
)
from tests.csrc.suites import SUITES

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("csrc")
    renamed = tuple(f"-D{name}=test_{name}" for name in ("malloc", "calloc", "realloc"))
    # Not optimised: that would take twice as long to compile, and a second less to run.
    return build(folder, "jet_tests", sorted(HERE.glob("*.c")), renamed, (*MEMORY, "-O0"))


@pytest.mark.parametrize("suite", SUITES)
def test_the_c_library_keeps_its_promises(program, suite):
    run([str(program), suite], timeout=60)


def test_golden_frames_parse_at_every_length(program, tmp_path):
    run([str(program), "golden", str(golden_file(tmp_path))], timeout=60)


def test_every_suite_is_run():
    """A suite that is declared and not listed here would never run."""
    declared = (HERE / "check.h").read_text().count("void suite_")
    assert declared == len(SUITES) + 1


LEAKING = "#include <stdlib.h>\nint main(void) { return malloc(8) == (void *)1; }\n"


def test_what_is_not_freed_is_found(tmp_path):
    """Some containers forbid what looking for leaks needs: then this is skipped, and the tests
    above look for all but leaks."""
    source = tmp_path / "leaking.c"
    source.write_text(LEAKING)
    program = build_program(tmp_path, "leaking", [source], [], (*MEMORY, "-O0"))
    done = execute([str(program)], {**clean_environment(), "ASAN_OPTIONS": "detect_leaks=1"}, 60)
    if CANNOT_LOOK in done.stderr:
        pytest.skip("this machine forbids what looking for leaks needs; the suites run")
    assert done.returncode != 0
    assert "LeakSanitizer: detected memory leaks" in done.stderr
