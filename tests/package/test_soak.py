"""What a part of the long form keeps: a record of the commit that was tested, or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.soak import __main__ as soak
from tests.soak import page
from tests.soak.parts import PARTS


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A part of one test that passes; its record goes to a folder of its own."""
    place = tmp_path / "test_it.py"
    place.write_text("def test_it(): pass\n")
    monkeypatch.setitem(PARTS, "short", [str(place)])
    monkeypatch.setattr(page, "RECORDS", tmp_path)
    return "short"


def test_a_record_names_the_commit_that_was_tested(part, tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "commit", lambda: "abc")
    assert soak.run(part, [])
    record = json.loads((tmp_path / "short.json").read_text())
    assert (record["commit"], record["figures"]) == ("abc", [])


def test_sources_that_change_during_a_run_leave_no_record(part, tmp_path, monkeypatch, capfd):
    seen = iter(["abc", "abc-dirty"])
    monkeypatch.setattr(soak, "commit", lambda: next(seen))
    assert not soak.run(part, [])
    assert "sources changed" in capfd.readouterr().err
    assert not (tmp_path / "short.json").exists()


def test_a_part_that_fails_leaves_no_record(part, tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "commit", lambda: "abc")
    (tmp_path / "test_it.py").write_text("def test_it(): assert False\n")
    assert not soak.run(part, [])
    assert not (tmp_path / "short.json").exists()
