"""Noted: a call that observers leave out, from its beginning to its note."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from jetsync._core.notes import MOST_NOTED, Noted, call_noted, sum_notes, take_notes


class Watch:
    """Counts how often notes wait to be read."""

    times = 0

    def noted(self):
        self.times += 1


def test_the_end_of_the_block_leaves_a_note():
    notes = deque()
    with Noted(Watch(), notes, "about", 1):
        assert not notes
    ((about, error, count, seconds),) = notes
    assert (about, error, count) == ("about", None, 1)
    assert 0 < seconds < 60


def test_a_call_that_raises_leaves_the_name_of_what_it_raised():
    notes = deque()
    with pytest.raises(ZeroDivisionError), Noted(Watch(), notes, "about"):
        raise ZeroDivisionError
    assert notes[0][:3] == ("about", "ZeroDivisionError", None)


def test_the_number_of_messages_may_be_known_late_and_the_end_elsewhere():
    notes = deque()
    noted = Noted(Watch(), notes, "about")
    noted.count = 7
    noted.end(ValueError())
    assert notes[0][:3] == ("about", "ValueError", 7)


def test_where_nothing_is_to_be_told_there_is_no_note():
    watch = Watch()
    with Noted(watch, None, "about", 1) as noted:
        noted.count = 2
    assert watch.times == 0


def test_notes_that_wait_are_told_of_at_the_most():
    watch, notes = Watch(), deque()
    for number in range(MOST_NOTED):
        assert watch.times == 0, number
        with Noted(watch, notes, number):
            pass
    assert watch.times == 1


def test_a_function_is_called_as_it_would_be_and_leaves_a_note():
    notes = deque()
    found = call_noted(Watch(), notes, "about", 3, sorted, ([1, 2],), {"reverse": True})
    assert found == [2, 1]
    assert call_noted(Watch(), notes, "about", 0, list, ()) == []
    assert [note[:3] for note in notes] == [("about", None, 3), ("about", None, 0)]
    assert all(0 <= note[3] < 60 for note in notes)


def test_a_batch_is_as_many_messages_as_it_is_long_and_none_where_there_is_no_batch():
    notes = deque()
    call_noted(Watch(), notes, "about", None, list, ("abc",))
    with pytest.raises(ZeroDivisionError):
        call_noted(Watch(), notes, "about", None, divmod, (1, 0))
    assert [note[1:3] for note in notes] == [(None, 3), ("ZeroDivisionError", None)]


def test_a_called_function_tells_of_notes_that_wait_also_where_it_raises():
    watch = Watch()
    notes = deque([None] * (MOST_NOTED - 2))
    call_noted(watch, notes, "about", 1, list, ())
    assert watch.times == 0
    with pytest.raises(ZeroDivisionError):
        call_noted(watch, notes, "about", 1, divmod, (1, 0))
    assert watch.times == 1


def test_notes_are_taken_once():
    notes = deque([1, 2])
    assert (take_notes(notes), take_notes(notes), list(notes)) == ([1, 2], [], [])


def test_notes_that_are_taken_while_others_come_are_neither_lost_nor_doubled():
    notes, taken, ended = deque(), [], threading.Event()

    def take():
        while not ended.is_set():
            taken.extend(take_notes(notes))

    takers = [threading.Thread(target=take) for _ in range(2)]
    for taker in takers:
        taker.start()
    for number in range(100_000):
        notes.append(number)
    ended.set()
    for taker in takers:
        taker.join()
    assert sorted([*taken, *notes]) == list(range(100_000))


def test_messages_are_summed_by_what_a_call_is_about_and_what_it_raised():
    a, b = ("publish", "a"), ("receive", "b")
    notes = [
        *[(a, None, 1, 0.1)] * 3,
        (b, None, 500, 0.1),
        (a, "TimeoutError", 1, 0.1),
        (("publish", "a"), None, 2, 0.1),
        (b, "TimeoutError", None, 0.1),
        (b, None, 7, 0.1),
    ]
    sums = {(a, None): 5, (b, None): 507, (a, "TimeoutError"): 1, (b, "TimeoutError"): 0}
    assert sum_notes(notes) == sums
    assert sum_notes([]) == {}
