"""The C library on its own: unit tests in C, run under the address and UB sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.csrc.build import build, golden_file, run
from tests.csrc.suites import SUITES

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("csrc")
    renamed = tuple(f"-D{name}=test_{name}" for name in ("malloc", "calloc", "realloc"))
    return build(folder, "jet_tests", sorted(HERE.glob("*.c")), renamed)


@pytest.mark.parametrize("suite", SUITES)
def test_the_c_library_keeps_its_promises(program, suite):
    run([str(program), suite], timeout=60)


def test_golden_frames_parse_at_every_length(program, tmp_path):
    run([str(program), "golden", str(golden_file(tmp_path))], timeout=60)


def test_every_suite_is_run():
    """A suite that is declared and not listed here would never run."""
    declared = (HERE / "check.h").read_text().count("void suite_")
    assert declared == len(SUITES) + 1
