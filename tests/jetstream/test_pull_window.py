"""How much a stream of messages asks for: bounds, thresholds, growth. No server."""

from __future__ import annotations

import pytest

from jetsync.jetstream.pull.options import (
    DEFAULT_MESSAGES,
    LARGEST_BUFFER,
    LARGEST_WINDOW,
    BufferLimits,
    Window,
)


def window(most=0, **options):
    return Window(BufferLimits.of(**options), most)


def plan(one, *, waiting=0, buffered=0, waiting_bytes=0, buffered_bytes=0, left=None):
    return one.plan(
        waiting=waiting,
        buffered=buffered,
        waiting_bytes=waiting_bytes,
        buffered_bytes=buffered_bytes,
        left=left,
    )


def starve(one, times=20, *, rate=1_000_000, round_trip=0.01, each=200):
    """The user waits for messages that the server has ready."""
    for _ in range(times):
        one.took(rate, 1.0)
        one.starved(round_trip, each)


def test_it_asks_for_what_is_missing_at_the_threshold_and_not_before():
    one = window(max_messages=100)
    assert plan(one) == (100, 0)
    assert plan(one, waiting=30, buffered=20) == (50, 0)
    count, pause = plan(one, waiting=30, buffered=40)
    assert (count, pause) == (0, 21)
    assert plan(one, waiting=30, buffered=pause - 1) == (50, 0)


def test_it_asks_for_no_more_than_is_wanted():
    assert plan(window(max_messages=100), waiting=5, left=12) == (7, 0)


def test_a_bound_of_the_user_is_never_passed():
    for one in (window(max_messages=1000), window(max_bytes=50_000)):
        before = (one.max_messages, one.max_bytes)
        starve(one)
        assert (one.max_messages, one.max_bytes) == before


def test_it_grows_with_what_the_link_holds_and_no_further():
    one = window()
    assert one.max_messages == DEFAULT_MESSAGES
    starve(one, rate=1_000_000, round_trip=0.002)
    assert 4_000 <= one.max_messages <= 16_000
    starve(one, rate=1_000_000, round_trip=0.5)
    assert one.max_messages == LARGEST_WINDOW


def test_loopback_needs_no_larger_window():
    one = window()
    starve(one, rate=1_000_000, round_trip=0.0001)
    assert one.max_messages == DEFAULT_MESSAGES


def test_large_messages_keep_it_small():
    one = window()
    starve(one, each=64 * 1024, round_trip=0.3)
    assert one.max_messages == DEFAULT_MESSAGES


def test_it_keeps_to_what_the_consumer_gives_out_before_an_acknowledgement():
    one = window(most=3000)
    starve(one, round_trip=0.5)
    assert one.max_messages == 3000


@pytest.mark.parametrize("asked", [1, 20_000, 64_000])
def test_pulls_of_a_grown_window_are_bounded_in_bytes(asked):
    one = window()
    assert one.bytes_for(asked, 0) is None
    starve(one, round_trip=0.5)
    size = one.bytes_for(asked, 0)
    assert size is not None
    assert 1 <= size <= LARGEST_BUFFER * asked // one.max_messages


def test_it_shrinks_when_its_user_becomes_slow_or_a_message_does_not_fit():
    one = window()
    starve(one, round_trip=0.5)
    one.slowed(10_000, 2.0)
    assert one.max_messages == 10_000
    one.slowed(10, 60.0)
    assert one.max_messages == DEFAULT_MESSAGES
    starve(one, round_trip=0.5)
    assert one.shrink()
    assert one.max_messages == DEFAULT_MESSAGES
    assert not one.shrink()
