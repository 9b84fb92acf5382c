"""One thread runs handlers that keep the interpreter to themselves, all run the others."""

from __future__ import annotations

import pytest

from jetsync.worker.pace import PATIENCE, QUICK, Pace

THREADS = 8


class Handlers:
    """Handlers that take so long, on a clock of their own, as a worker of 8 threads runs them.

    ``cpu`` is the part of it in which a processor is busy, ``free`` that of this part in which
    others run too."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.now = 1.0

    def run(self, seconds: float, times: float, cpu: float = 1.0, free: float = 0.0) -> float:
        """Run them for so many seconds; return the share of them that one thread ran."""
        ends, alone, total = self.now + times, 0, 0
        while self.now < ends:
            took, step = seconds, seconds
            if not self.pace.is_one:
                together = THREADS if cpu < 1.0 else 1 + free
                step = seconds / together
                took = seconds if cpu < 1.0 else seconds * THREADS / together
            self.now += step
            total, alone = total + 1, alone + self.pace.is_one
            self.pace.note(took, seconds * cpu if not self.pace.is_quick else None, self.now)
        return alone / total


@pytest.fixture
def handlers() -> Handlers:
    return Handlers(Pace())


def test_quick_handlers_are_run_by_one_thread_whether_they_wait_or_not(handlers: Handlers):
    assert handlers.run(QUICK / 2, 0.1, cpu=0.1) == 1.0


@pytest.mark.parametrize("seconds", [2 * QUICK, 8 * QUICK])
def test_handlers_that_wait_are_run_by_all_threads(handlers: Handlers, seconds: float):
    handlers.run(seconds, 0.1, cpu=0.2)
    assert handlers.run(seconds, 10.0, cpu=0.2) < 0.01


@pytest.mark.parametrize("seconds", [2 * QUICK, 8 * QUICK])
def test_handlers_that_keep_the_interpreter_are_run_by_one_thread(
    handlers: Handlers, seconds: float
):
    handlers.run(seconds, 0.1)
    assert handlers.run(seconds, 10.0) > 0.98


def test_handlers_that_leave_the_interpreter_to_others_are_run_by_all_threads(handlers: Handlers):
    handlers.run(4 * QUICK, 0.1, free=0.9)
    assert handlers.run(4 * QUICK, 10.0, free=0.9) < 0.02


def test_handlers_of_a_millisecond_are_run_by_all_threads_whatever_they_do(handlers: Handlers):
    handlers.run(2 * PATIENCE, 0.3)
    assert handlers.run(2 * PATIENCE, 30.0) < 0.02


def test_handlers_that_change_are_judged_anew(handlers: Handlers):
    handlers.run(4 * QUICK, 30.0)
    handlers.run(4 * QUICK, 0.05, cpu=0.2)
    assert handlers.run(4 * QUICK, 1.0, cpu=0.2) < 0.02
    handlers.run(4 * QUICK, 30.0, cpu=0.2)
    handlers.run(4 * QUICK, 10.0)
    assert handlers.run(4 * QUICK, 10.0) > 0.98


def test_one_handler_that_had_to_wait_for_a_processor_changes_nothing(handlers: Handlers):
    handlers.pace.note(1.0, None, handlers.now)
    assert handlers.pace.is_one


def test_when_no_handler_ends_all_threads_run_until_they_are_quick_again(handlers: Handlers):
    for _ in range(4):
        assert handlers.pace.is_one
        handlers.pace.stuck(handlers.now)
        handlers.now += 2 * PATIENCE
    assert not handlers.pace.is_one
    handlers.run(QUICK / 2, 0.3)
    assert handlers.pace.is_one
    assert handlers.pace.is_quick
