"""The lanes of the tests: their long files exist, and what fails is run once more."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import jetsync
from tests import lanes
from tests.harness.lanes import FIRST
from tests.harness.places import ROOT
from tests.harness.waiting import wait_until


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
    print("%s", os.environ["PYTEST_XDIST_WORKER"])
"""


def test_the_tests_of_a_file_share_a_process_and_so_do_those_with_a_spark_session(tmp_path):
    """Else each process makes the resources of each file, and a Spark session, for itself."""
    (tmp_path / "tests" / "spark").mkdir(parents=True)
    files = [("spark/test_c.py", ", spark", "S"), ("spark/test_d.py", ", spark", "S")]
    files += [(f"test_{name}.py", "", name) for name in "ab"]
    for name, more, mark in files:
        (tmp_path / "tests" / name).write_text(FILE % (more, mark))
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider"]
    command += ["-p", "grouping", "--rootdir", ".", "--import-mode=importlib"]
    command += [word for word in lanes.LANES["parallel"] if word not in ("-m", "not timed")]
    (tmp_path / "grouping.py").write_text(
        "import pathlib\nfrom tests.harness import lanes\n"
        "lanes.ROOT = pathlib.Path(__file__).parent\nfrom tests.harness.lanes import *\n"
    )
    places = (tmp_path, Path(jetsync.__file__).parents[1], ROOT)  # the installed package first
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = re.findall(r"^(a|b|S) (gw\d+)$", done.stdout, re.MULTILINE)
    assert len(seen) == 24
    assert len(set(seen)) == 3


NOTING = """
import pathlib

def test_it():
    with pathlib.Path(__file__).with_suffix(".notes").open("a") as file:
        file.write("ran\\n")
"""


def test_what_measures_time_waits_for_the_end_of_what_runs_beside(tmp_path, monkeypatch):
    """Continuous integration builds wheels and more beside the other tests."""
    (tmp_path / "test_a.py").write_text(NOTING)
    notes, first = tmp_path / "test_a.notes", tmp_path / "reports/parallel.xml"
    monkeypatch.setattr(lanes, "LANES", {"parallel": [], "timed": []})
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    monkeypatch.setattr(lanes, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(sys, "argv", ["lanes"])
    monkeypatch.setenv(lanes.BESIDE, str(tmp_path / "beside"))
    with (tmp_path / "beside").open("w") as beside:
        fcntl.flock(beside, fcntl.LOCK_SH)

        def end():
            wait_until(lambda: first.exists() and notes.exists(), timeout=60)
            time.sleep(0.2)  # in which the other lane would begin
            with notes.open("a") as file:
                file.write("ended\n")
            fcntl.flock(beside, fcntl.LOCK_UN)

        thread = threading.Thread(target=end)
        thread.start()
        assert lanes.main() == 0
        thread.join()
    assert notes.read_text().split() == ["ran", "ended", "ran"]


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


STAGES = """
begin quick true
begin wrong bash -c 'sleep 1; exit 3'
stage slow sleep 3
finish quick
finish wrong
printf '%s\\n' "${stages[@]}" "failed: ${failed[*]}"
flock --nonblock "$JETSYNC_BESIDE" echo "the lock is free"
"""


def test_a_stage_that_runs_beside_others_is_told_with_its_own_time(tmp_path):
    """Not with the time until another one has ended."""
    text = (ROOT / ".ci/run").read_text(encoding="utf-8")
    functions = text[text.index("declare -A pids") : text.index("# Runs a command only")]
    done = subprocess.run(
        ["bash", "-c", f"set -uo pipefail\nlogs={tmp_path}\n{functions}\n{STAGES}"],
        env={**os.environ, lanes.BESIDE: str(tmp_path / "lock")},
        capture_output=True,
        text=True,
        check=False,
    )
    slow, quick, wrong, *rest = done.stdout.splitlines()
    assert rest == ["failed: wrong", "the lock is free"], done
    took = {line.split()[0]: int(line.split()[-2]) for line in (slow, quick, wrong)}
    assert took["quick"] <= took["wrong"] < took["slow"]
    assert "FAILED" in wrong
