"""SUB lines that a server may still refuse, when several threads write them at the same moment."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest

from jetsync._core.outbound import Outbound
from jetsync.client.unconfirmed import Unconfirmed
from jetsync.errors import ConnectionClosedError
from tests.core.kit import attached

FIRST, SECOND = 11, 22  # subscription ids


def test_lines_of_several_threads_are_known_in_the_order_in_which_they_leave():
    lines, outbound = Unconfirmed(), attached()
    start = threading.Barrier(4)

    def switch(*_: object) -> Any:
        time.sleep(0)  # gives the others the interpreter
        return switch

    def subscribe(sid: int) -> None:
        outbound.subscribe("s", None, sid, lines.lines, lines.numbers)

    def run(thread: int) -> None:
        start.wait()
        sys.settrace(switch)  # at each step of Python code another thread runs
        for n in range(50):
            subscribe(thread * 1000 + n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sent = [int(line.split()[2]) for line in outbound.peek().splitlines()]
    assert len(sent) == 200
    # The server takes some of them only: the last ones are refused, one after the other.
    assert [lines.refused([]) for _ in sent] == sent[::-1]


def test_a_line_is_confirmed_only_by_a_ping_behind_it():
    lines, outbound = Unconfirmed(), attached()
    before = lines.position()
    outbound.subscribe("s", None, FIRST, lines.lines, lines.numbers)
    behind = lines.position()
    lines.confirmed(before)
    assert list(lines.lines) == [FIRST]
    lines.confirmed(behind)
    assert lines.refused([]) == 0


def test_the_last_line_before_the_first_ping_is_refused_first():
    lines, outbound = Unconfirmed(), attached()
    lines.replayed(FIRST)
    position = lines.position()
    outbound.subscribe("s", None, SECOND, lines.lines, lines.numbers)
    assert [lines.refused([position]) for _ in range(3)] == [FIRST, SECOND, 0]


def test_a_line_that_is_written_again_counts_as_the_last_one():
    lines, outbound = Unconfirmed(), attached()
    for sid in (FIRST, SECOND, FIRST):
        outbound.subscribe("s", None, sid, lines.lines, lines.numbers)
    assert [lines.refused([]) for _ in range(3)] == [FIRST, SECOND, 0]


def test_a_line_that_is_not_written_is_not_noted():
    lines, outbound = Unconfirmed(), Outbound()
    outbound.close()
    with pytest.raises(ConnectionClosedError):
        outbound.subscribe("s", None, FIRST, lines.lines, lines.numbers)
    assert not lines.lines
