"""The state of pulls, with counts, statuses and a clock: no server."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.jetstream.pull.options import WARY_HEARTBEAT, PullOptions
from jetsync.jetstream.pull.state import PullState
from jetsync.jetstream.pull.statuses import STATUSES, Fate
from jetsync.jetstream.silence import Silence

NOW = 1000.0


def pull(state, batch, *, expires=60.0, now=NOW, waiting=0, **options):
    return state.sent(PullOptions(batch, expires, **options), now, waiting)


def say(state, number, line, left=None, *, now=NOW, waiting=0):
    code, _, text = line.partition(" ")
    return state.on_status(number, int(code), text, left, now, waiting)


@pytest.fixture
def state():
    return PullState(NOW, epoch=1)


# -- accounting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [row for row in STATUSES if row[2] is not Fate.ALIVE], ids=str)
def test_a_status_that_ends_a_pull_frees_exactly_its_remainder(state, row):
    code, text, fate = row
    first = pull(state, 10, max_bytes=1000)
    pull(state, 20, max_bytes=2000)
    state.took(4, 400)
    assert (state.outstanding, state.outstanding_bytes) == (26, 2600)
    ended = say(state, first, f"{code} {text}")
    assert ended is not None
    assert (ended.fate, ended.number) == (fate, first)
    if fate in (Fate.VOID, Fate.FATAL):
        assert state.outstanding == 0
    else:
        assert (state.outstanding, state.outstanding_bytes) == (20, 2000)


def test_a_second_last_word_for_a_pull_does_not_touch_the_one_that_replaced_it(state):
    first = pull(state, 10)
    state.took(2, 0)
    ended = say(state, first, "409 Server Shutdown", 10)
    assert ended is not None
    assert ended.fate is Fate.VOID
    pull(state, 8)
    assert say(state, first, "409 Leadership Change") is None
    assert state.outstanding == 8


def test_a_pull_that_found_no_room_is_due_also_when_its_pause_ended_between_two_looks(state):
    number = pull(state, 10)
    state.not_sent(number, NOW)
    assert 0 < state.check_in(NOW, NOW) < 1
    assert state.check_in(NOW + 60, NOW) < 1
    # Once: who needed no pull after all waits in peace.
    assert state.check_in(NOW + 60, NOW) > 1000


def test_a_heartbeat_ends_nothing(state):
    number = pull(state, 5)
    assert say(state, number, "100 Idle Heartbeat") is None
    assert state.is_waiting_for(number)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_what_is_outstanding_is_what_the_server_owes_in_whatever_order_it_serves(data):
    """With counts in its statuses. And it is never below zero."""
    state = PullState(NOW, epoch=1)
    owed: dict[int, int] = {}
    said: list[int] = []
    for _ in range(data.draw(st.integers(1, 40))):
        actions = ["pull", "serve", "end", "again", "void", "negative"]
        action = data.draw(st.sampled_from(actions))
        if action == "pull" and len(owed) < 4:
            batch = data.draw(st.integers(1, 8))
            owed[pull(state, batch)] = batch
        elif action == "serve" and owed:
            number = data.draw(st.sampled_from(sorted(owed)))
            owed[number] -= 1
            if not owed[number]:
                del owed[number]
            state.took(1, 0)
        elif action == "end" and owed:
            number = data.draw(st.sampled_from(sorted(owed)))
            say(state, number, "408 Request Timeout", owed.pop(number))
            said.append(number)
        elif action == "void" and owed:
            say(state, max(owed), "409 Leadership Change")
            owed.clear()
        elif action == "negative" and said:
            say(state, said[-1], "409 Batch Completed", 0)
        elif action == "again" and said:
            say(state, said[-1], "409 Leadership Change")
        assert state.outstanding == sum(owed.values())
        assert not (state.is_served and owed)


def test_only_pulls_that_were_served_in_full_leave_nothing_on_its_way(state):
    """What is said of a pull may overtake its messages; those of one that was called off may still
    come."""
    assert state.is_served
    pull(state, 4)
    state.took(3, 0)
    assert not state.is_served
    state.took(1, 0)
    assert state.is_served
    say(state, pull(state, 2), "408 Request Timeout", 2)
    assert not state.is_open
    assert not state.is_served
    other = PullState(NOW, epoch=1)
    pull(other, 2)
    other.call_off(waiting=0)
    assert not other.is_open
    assert not other.is_served


def test_what_waits_is_not_counted_twice(state):
    """It is charged to its pull when it is taken; until then it waits and is outstanding."""
    pull(state, 10)
    assert state.waiting(pending=4) == 10
    assert state.waiting(pending=12) == 12


def test_what_a_lost_pull_brought_counts_beside_the_next_pull(state):
    pull(state, 10)
    state.call_off(waiting=4)
    pull(state, 6, waiting=4)
    assert state.waiting(pending=4) == 10
    state.took(4, 0)
    assert state.waiting(pending=0) == 6


# -- when to pull ----------------------------------------------------------------------------------


def test_refusals_are_answered_ever_later(state):
    waits = []
    now = NOW
    for _ in range(6):
        say(state, pull(state, 1, now=now), "409 Exceeded MaxWaiting", now=now)
        begun = now
        while not state.may_pull(now):
            now += 0.01
        waits.append(now - begun)
    assert waits == sorted(waits)
    assert 0.05 < waits[0] < 0.2 < waits[-1] < 1.1


def test_a_message_ends_the_pauses(state):
    for _ in range(5):
        say(state, pull(state, 1), "503 No Responders")
    state.took(1, 0)
    say(state, pull(state, 1), "503 No Responders")
    assert state.may_pull(NOW + 0.06)


def test_pulls_are_short_with_quick_heartbeats_after_a_change_of_leader(state):
    assert state.heartbeat(2.0, 30.0, NOW) == 2.0
    say(state, pull(state, 1), "409 Leadership Change")
    assert state.pull_length(30.0, NOW + 0.1) <= 2
    assert state.heartbeat(2.0, 2.0, NOW + 0.1) == WARY_HEARTBEAT
    assert state.pull_length(30.0, NOW + 1.1) == 30.0
    assert state.heartbeat(2.0, 30.0, NOW + 1.1) == 2.0


def test_a_pull_shorter_than_two_heartbeats_asks_for_none(state):
    assert state.heartbeat(2.0, 3.9, NOW) is None
    assert state.heartbeat(2.0, 4.0, NOW) == 2.0


def test_a_pull_that_ends_a_little_earlier_with_others_keeps_its_heartbeat(state):
    assert state.heartbeat(15.0, 29.8, NOW) == 14.9
    assert state.heartbeat(15.1, 29.8, NOW) is None


# -- silence ---------------------------------------------------------------------------------------


def hear(state, at, *, last_put=NOW, reads=0, ponged=False):
    return state.silence(NOW + at, last_put, reads, ponged, 0)


def test_a_server_is_silent_when_two_heartbeats_are_missing_and_nothing_was_received(state):
    pull(state, 1, heartbeat=0.5)
    assert hear(state, 0.9) is Silence.NONE
    assert hear(state, 1.1) is Silence.DEAD
    assert not state.is_open


def test_a_heartbeat_behind_a_large_message_is_not_missed(state):
    """Bytes arrive all the time, and the PONG comes behind the message."""
    pull(state, 1, heartbeat=0.5)
    assert hear(state, 0.5, reads=3) is Silence.NONE
    assert hear(state, 1.1, reads=9) is Silence.DOUBT
    for n in range(20, 200):
        assert hear(state, n / 10, reads=n) is Silence.NONE
    assert state.is_receiving(200)
    state.heard(201)
    assert hear(state, 20.1, last_put=NOW + 20.05, reads=201) is Silence.NONE
    assert state.is_open
    assert not state.is_receiving(201)


def test_a_pong_without_a_heartbeat_before_it_shows_that_the_server_is_silent(state):
    pull(state, 1, heartbeat=0.5)
    assert hear(state, 1.1, reads=9) is Silence.DOUBT
    assert hear(state, 1.2, reads=10, ponged=True) is Silence.DEAD


def test_bytes_from_before_the_last_sign_of_life_say_nothing(state):
    pull(state, 1, heartbeat=0.5)
    state.heard(9)
    assert hear(state, 1.1, reads=9) is Silence.DEAD


def test_a_link_that_falls_silent_in_a_doubt_is_silent(state):
    pull(state, 1, heartbeat=0.5)
    assert hear(state, 1.1, reads=9) is Silence.DOUBT
    assert hear(state, 1.5, reads=9) is Silence.NONE
    assert hear(state, 2.3, reads=9) is Silence.DEAD


def test_what_waits_here_to_be_received_counts_as_received(state):
    """This process got no processor: its reader thread has not come to what arrived in time."""
    pull(state, 1, heartbeat=0.5)

    def look(at, *, ponged=False):
        return state.silence(NOW + at, NOW, 0, ponged, 0, lambda: True)

    assert look(1.1) is Silence.DOUBT
    assert look(9.0) is Silence.NONE
    # Not for ever: it came behind everything that the server had sent by then.
    assert look(9.1, ponged=True) is Silence.DEAD


def test_the_time_for_heartbeats_begins_a_round_trip_after_the_pull(state):
    state.sent(PullOptions(1, 30.0, heartbeat=0.5), NOW, 0, round_trip=0.6)
    assert hear(state, 1.5) is Silence.NONE
    assert state.check_in(NOW, NOW) == pytest.approx(1.601)
    assert hear(state, 1.7) is Silence.DEAD


def test_after_a_sign_of_life_the_round_trip_does_not_count(state):
    state.sent(PullOptions(1, 30.0, heartbeat=0.5), NOW, 0, round_trip=0.6)
    assert hear(state, 1.9, last_put=NOW + 1.0) is Silence.NONE
    assert hear(state, 2.1, last_put=NOW + 1.0) is Silence.DEAD


def test_the_end_of_a_pull_is_awaited_a_round_trip_longer(state):
    state.sent(PullOptions(1, 2.0), NOW, 0, round_trip=0.6)
    assert hear(state, 3.5) is Silence.NONE
    assert hear(state, 3.7) is Silence.DEAD


def test_a_pull_that_the_server_does_not_end_is_lost_a_while_after_its_time(state):
    pull(state, 1, expires=2.0)
    assert hear(state, 2.9) is Silence.NONE
    assert hear(state, 3.1) is Silence.DEAD


def test_without_pulls_no_sign_of_life_is_due(state):
    assert hear(state, 500) is Silence.NONE


def test_a_lost_link_calls_every_pull_off(state):
    pull(state, 5)
    assert state.link(1, True, 0) is False
    assert state.link(1, False, 2) is True
    assert state.outstanding == 0
    assert state.link(2, True, 2) is True
    assert state.link(2, True, 2) is False
