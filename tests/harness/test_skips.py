"""In continuous integration a test that is skipped for want of a program or a package fails."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import pytest

def test_of_a_longer_form():
    pytest.skip("make soak; another runs")

def test_that_the_kernel_forbids():
    pytest.skip("this machine forbids a mount; another runs")

def test_without_a_program():
    pytest.skip("needs a program; another runs")

@pytest.mark.skipif(True, reason="no package; another runs")
def test_without_a_package():
    pass

@pytest.mark.xfail(reason="a defect")
def test_that_is_known_to_fail():
    assert False
"""
WHOLE = 'import pytest\npytest.importorskip("missing_package", reason="an extra; another runs")\n'


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_it.py").write_text(CODE)
    (folder / "test_whole.py").write_text(WHOLE)
    return folder


def run(folder, *arguments, in_ci):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("JETSYNC_CI", None)
    if in_ci:
        environment["JETSYNC_CI"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "tests.harness.skips"]
    return subprocess.run(
        [*command, *arguments, str(folder)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one", "xdist"])
def test_what_is_missing_is_a_failure_that_says_so(suite, processes):
    said = run(suite, *processes, "--ignore", suite / "test_whole.py", in_ci=True)
    assert "1 failed, 2 skipped, 1 xfailed, 1 error" in said
    assert "skipped in continuous integration: needs a program; another runs" in said
    assert "skipped in continuous integration: no package; another runs" in said


def test_a_module_that_is_skipped_whole_is_a_failure_too(suite):
    said = run(suite, suite / "test_whole.py", in_ci=True)
    assert "skipped in continuous integration: an extra; another runs" in said
    assert "1 error" in said


def test_elsewhere_such_tests_are_skipped(suite):
    said = run(suite, in_ci=False)
    assert "5 skipped, 1 xfailed" in said
