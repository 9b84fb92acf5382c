"""The lanes of the tests: their long files exist, and what fails is run once more."""

from __future__ import annotations

import sys

import pytest

from tests import lanes
from tests.harness.lanes import FIRST
from tests.harness.places import ROOT


def test_every_place_that_begins_first_exists():
    assert FIRST
    for place in FIRST:
        assert (ROOT / place).exists(), place
        assert (ROOT / place).is_dir() == place.endswith("/"), place


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
