"""SUB lines that a server may still refuse, when two threads write them at the same moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from jetsync.client.unconfirmed import Unconfirmed

FIRST, SECOND = 11, 22  # subscription ids


class Switching(Iterator[int]):
    """Numbers, where another thread runs (or a signal handler) before or after the first one."""

    def __init__(self, other: Callable[[], None], before: bool) -> None:
        self._numbers = itertools.count(1)
        self._other = other
        self._before = before
        self._is_first = True

    def __next__(self) -> int:
        if not self._is_first:
            return next(self._numbers)
        self._is_first = False
        if self._before:
            self._other()
        number = next(self._numbers)
        if not self._before:
            self._other()
        return number


def written(lines: Unconfirmed, sid: int) -> None:
    lines.begin(sid)
    lines.end(sid)


@pytest.mark.parametrize("before", [True, False])
def test_a_line_that_another_one_overtakes_is_confirmed_only_by_a_ping_behind_it(before):
    lines, marks = Unconfirmed(), []

    def other() -> None:
        written(lines, SECOND)
        marks.append(lines.newest)  # of a PING while the first line is not written

    lines._numbers = Switching(other, before)
    lines.begin(FIRST)
    marks.append(lines.newest)
    lines.end(FIRST)
    for mark in marks:
        lines.confirmed(mark)
    assert FIRST in {lines.refused([]), lines.refused([])}


@pytest.mark.parametrize("before", [True, False])
def test_lines_that_overtake_one_another_are_all_confirmed_by_a_ping_behind_them(before):
    lines = Unconfirmed()
    lines._numbers = Switching(lambda: written(lines, SECOND), before)
    written(lines, FIRST)
    lines.confirmed(lines.newest)
    assert lines.refused([]) == 0


@pytest.mark.parametrize("before", [True, False])
def test_both_of_two_lines_that_overtake_one_another_can_be_refused(before):
    lines = Unconfirmed()
    lines._numbers = Switching(lambda: written(lines, SECOND), before)
    written(lines, FIRST)
    mark = lines.newest
    assert {lines.refused([mark]), lines.refused([mark])} == {FIRST, SECOND}
    assert lines.refused([mark]) == 0


def test_the_last_line_before_the_first_ping_is_refused_first():
    lines = Unconfirmed()
    written(lines, FIRST)
    mark = lines.newest
    written(lines, SECOND)
    assert [lines.refused([mark]), lines.refused([mark]), lines.refused([mark])] == [
        FIRST,
        SECOND,
        0,
    ]
