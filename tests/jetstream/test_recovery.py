"""What ordered pull and ordered push do when a server consumer is lost: with a clock, no server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import jetsync
from jetsync.jetstream.config.stream_info import StreamInfo, StreamState
from jetsync.jetstream.ordered.recovery import Recovery

MADE = datetime(2026, 1, 1, tzinfo=timezone.utc)
NOW = 1000.0


def info(last_seq, created=MADE):
    return StreamInfo(created=created, state=StreamState(last_seq=last_seq))


@pytest.fixture
def recovery():
    one = Recovery("S")
    one.begin(info(10))
    return one


def test_the_first_failure_is_repaired_at_once_and_the_next_ones_ever_later(recovery):
    waits = []
    for _ in range(10):
        recovery.attempt(NOW)
        assert recovery.failed("gone", NOW) is None
        waits.append(recovery.not_before - NOW)
    assert waits[:3] == [0.0, pytest.approx(0.1), pytest.approx(0.2)]
    assert waits == sorted(waits)
    assert waits[-1] == 2.0


def test_an_attempt_that_waited_for_an_answer_has_waited_already(recovery):
    for failures in range(4):
        assert recovery.attempt(NOW) == 2.0 + failures
        recovery.failed("no answer", NOW + 1.0)
        assert recovery.not_before == NOW + 1.0


def test_a_message_or_a_heartbeat_ends_a_row_of_failures(recovery):
    for end in (lambda: recovery.progress(11), recovery.alive):
        recovery.failed("gone", NOW)
        recovery.failed("gone", NOW)
        end()
        recovery.failed("gone", NOW)
        assert recovery.not_before == NOW


def test_so_many_failures_in_a_row_as_wanted():
    recovery = Recovery("S", max_resets=2)
    assert recovery.failed("a", NOW) is None
    assert recovery.failed("b", NOW) is None
    assert "reset 3 times in a row" in str(recovery.failed("c", NOW))


def test_a_stream_that_was_made_later_is_another_one_at_once(recovery):
    error = recovery.compare(info(20, MADE + timedelta(seconds=1)), NOW)
    assert isinstance(error, jetsync.JetStreamError)
    assert "made again" in str(error)


def test_a_leader_that_is_behind_is_waited_for(recovery):
    recovery.progress(12)
    for seconds in (0.0, 1.0, 3.9):
        with pytest.raises(jetsync.DisconnectedError):
            recovery.compare(info(11), NOW + seconds)
    assert recovery.compare(info(12), NOW + 3.95) is None
    with pytest.raises(jetsync.DisconnectedError):
        recovery.compare(info(11), NOW + 10)


def test_a_stream_that_stays_shorter_or_older_is_another_one(recovery):
    for other in (info(9), info(50, MADE - timedelta(seconds=1))):
        with pytest.raises(jetsync.DisconnectedError):
            recovery.compare(other, NOW)
        assert "is not the one it was" in str(recovery.compare(other, NOW + 4.1))
        assert recovery.compare(info(10), NOW + 4.2) is None


def test_a_stream_has_to_be_unknown_for_a_while_before_it_is_gone(recovery):
    missing = jetsync.StreamNotFoundError("stream not found")
    assert not recovery.is_final(jetsync.TimeoutError("no answer"), NOW)
    assert not recovery.is_final(missing, NOW)
    assert not recovery.is_final(missing, NOW + 1.9)
    recovery.found()
    assert not recovery.is_final(missing, NOW + 2.1)
    assert recovery.is_final(missing, NOW + 4.2)
