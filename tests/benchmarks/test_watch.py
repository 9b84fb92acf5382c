"""The watch over instruction counts judges as it says."""

from __future__ import annotations

import json

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


def test_a_case_without_a_record_is_shown_and_not_judged():
    lines, grown = check.compare({"new": 7.0}, {})
    assert (grown, "7" in lines[1]) == ([], True)


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
