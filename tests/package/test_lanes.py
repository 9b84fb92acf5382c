"""The lanes of the tests: their long files exist, and what fails is run once more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jetsync
from tests import lanes
from tests.harness.lanes import FIRST
from tests.harness.places import ROOT


def test_every_place_that_begins_first_exists():
    assert FIRST
    for place in FIRST:
        assert (ROOT / place).exists(), place
        assert (ROOT / place).is_dir() == place.endswith("/"), place


FILE = """
import os
import pytest

@pytest.fixture(scope="session")
def spark():
    pass

@pytest.mark.parametrize("n", range(6))
def test_one(n%s):
    print("%s", os.getpid())
"""


def test_the_tests_of_a_file_share_a_process_and_so_do_those_with_a_spark_session(tmp_path):
    """Else each process makes the resources of each file, and a Spark session, for itself."""
    (tmp_path / "tests" / "spark").mkdir(parents=True)
    files = [("spark/test_c.py", ", spark", "S"), ("spark/test_d.py", ", spark", "S")]
    files += [(f"test_{name}.py", "", name) for name in "ab"]
    for name, more, mark in files:
        (tmp_path / "tests" / name).write_text(FILE % (more, mark))
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider"]
    command += [
        "-p",
        "elsewhere",
        "-p",
        "tests.harness.beside",
        "--rootdir",
        ".",
        "--import-mode=importlib",
    ]
    command += [word for word in lanes.LANES["parallel"] if word not in ("-m", "not timed")]
    (tmp_path / "elsewhere.py").write_text(
        "import pathlib\nfrom tests.harness import lanes\n"
        "lanes.ROOT = pathlib.Path(__file__).parent\n"
    )
    places = (tmp_path, Path(jetsync.__file__).parents[1], ROOT)  # the installed package first
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = re.findall(r"^(a|b|S) (\d+)$", done.stdout, re.MULTILINE)
    assert len(seen) == 24
    assert len(set(seen)) == 3


def test_one_lane_alone_has_a_summary_of_its_own(tmp_path, monkeypatch, capfd):
    """Continuous integration runs the lanes one by one, and shows both summaries at its end."""
    (tmp_path / "test_a.py").write_text("def test_never(): assert 0")
    monkeypatch.setattr(lanes, "LANES", {"one": [], "other": []})
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    monkeypatch.setattr(lanes, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(sys, "argv", ["lanes", "other"])
    assert lanes.main() == 1
    assert [path.name for path in (tmp_path / "reports").glob("*.xml")] == ["other.xml"]
    said = (tmp_path / "reports" / "summary-other.txt").read_text()
    assert "test_a.py::test_never" in said
    assert said in capfd.readouterr().out


UNSTEADY = """
import pathlib

def test_once(tmp_path_factory):
    seen = pathlib.Path(__file__).with_suffix(".seen")
    assert seen.exists() or seen.write_text("") > 0
"""


@pytest.mark.parametrize(
    ("files", "code", "line"),
    [
        ({"test_a.py": UNSTEADY}, 0, "unsteady: test_a.py::test_once"),
        ({"test_a.py": "def test_never(): assert 0"}, 1, "unsteady: none"),
        ({f"test_{n}.py": UNSTEADY for n in range(4)}, 1, "unsteady: none"),
    ],
    ids=["fails once", "fails always", "four fail once"],
)
def test_a_test_that_fails_is_run_once_more_and_named(
    files, code, line, tmp_path, monkeypatch, capfd
):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(lanes, "LANES", {"one": []})
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    monkeypatch.setattr(lanes, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(sys, "argv", ["lanes"])
    assert lanes.main() == code
    said = capfd.readouterr().out
    assert line in said
    for name in files:  # each failure once more at the end, with what it said
        end = said[said.rindex("lanes: failed:") :]
        assert f"{name}::test_" in end
        assert "assert " in end
    assert (tmp_path / "reports" / "summary.txt").read_text() == said[-len(end) :]
