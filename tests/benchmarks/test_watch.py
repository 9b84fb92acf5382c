"""The watch over instruction counts judges as it says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import jetsync
from benchmarks.micro.wire import COUNT
from benchmarks.watch import check
from benchmarks.watch.cases import CASES, TIMES


def test_a_jump_of_more_than_a_fifth_is_reported():
    lines, grown = check.compare(
        {"a": 121.0, "b": 119.0, "c": 50.0}, {"a": 100.0, "b": 100.0, "c": 100.0}
    )
    assert grown == ["a"]
    assert [("TOO MANY" in line, "far fewer" in line) for line in lines[1:]] == [
        (True, False),
        (False, False),
        (False, True),
    ]


def test_a_case_without_a_record_and_a_record_without_its_case_fail():
    lines, grown = check.compare({"new": 7.0}, {"old": 8.0})
    assert grown == ["new", "old"]
    assert ["no record" in lines[1], "not measured" in lines[2]] == [True, True]


def test_an_interpreter_without_a_record_is_judged_by_the_nearest_one():
    record = [
        "CPython 3.11 plain x86_64",
        "CPython 3.13 plain x86_64",
        "CPython 3.11 plain aarch64",
    ]
    for wanted, judge in (
        ("CPython 3.11 plain x86_64", "CPython 3.11 plain x86_64"),
        ("CPython 3.11 optimised x86_64", "CPython 3.11 plain x86_64"),
        ("CPython 3.14 plain x86_64", "CPython 3.13 plain x86_64"),
        ("CPython 3.13 plain riscv64", None),
        ("PyPy 3.11 plain x86_64", None),
    ):
        assert check.nearest(wanted, record) == judge


def test_a_quick_build_is_a_kind_of_its_own(monkeypatch):
    """Each Python that continuous integration builds a quick wheel for has its record."""
    monkeypatch.delenv("JETSYNC_QUICK", raising=False)
    usual = check.kind()
    monkeypatch.setenv("JETSYNC_QUICK", "1")
    assert check.kind() != usual
    record = json.loads(check.RECORD.read_text())
    quick = {kind.split()[1] for kind in record if kind.split()[2].endswith("-quick")}
    assert quick >= {"3.10", "3.12", "3.13"}


WHERE = "import benchmarks.watch, jetsync; print(jetsync.__file__)"


def test_what_is_counted_is_the_jetsync_of_the_process_that_asks(tmp_path, monkeypatch):
    """An installed wheel comes before the checkout, whose core may not be compiled."""
    command = [sys.executable, "-c", WHERE]
    assert check.run(command, cwd=str(tmp_path)).strip() == jetsync.__file__
    wheel = tmp_path / "wheel/jetsync/__init__.py"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    checkout = Path(check.__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "wheel"), str(checkout)]))
    assert check.run(command, cwd=str(tmp_path)).strip() == str(wheel)


def test_counts_are_per_message():
    instructions = 30 * TIMES * COUNT
    assert check.read(["a"], [f"events: Ir\nsummary: {instructions}\n"]) == {"a": 30.0}


def test_every_case_runs_and_can_be_repeated():
    for make in CASES.values():
        run = make()
        run()
        run()


def test_every_record_has_every_case():
    record = json.loads(check.RECORD.read_text())
    assert record
    for counts in record.values():
        assert list(counts) == sorted(CASES)
