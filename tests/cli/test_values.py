"""Values as people type and read them."""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta, timezone

import pytest

from jetsync.cli import values


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (-1, "unlimited"),
        (0, "0 B"),
        (1010, "1010 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 * 1024**2, "5.0 MiB"),
        (3 * 1024**3, "3.0 GiB"),
        (2 * 1024**6, "2048.0 PiB"),
    ],
)
def test_sizes_are_shown_in_units_of_1024(number: int, text: str) -> None:
    assert values.format_size(number) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [("-1", -1), ("7", 7), ("1k", 1024), ("1.5KiB", 1536), ("2 MB", 2 * 1024**2), ("1G", 1024**3)],
)
def test_sizes_are_read(text: str, number: int) -> None:
    assert values.size(text) == number


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (2e-9, "2ns"),
        (3.5e-6, "3.5us"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (60, "1m"),
        (90, "1m30s"),
        (3600 * 27 + 61, "1d3h"),
        (86400 * 400, "1y35d"),
    ],
)
def test_durations_are_shown_in_two_units_at_most(seconds: float, text: str) -> None:
    assert values.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7), ("1.5s", 1.5), ("250ms", 0.25), ("1m30s", 90), ("7d", 604_800), ("1w1h", 608_400)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert values.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (values.duration, "5 minutes"),
        (values.duration, "s"),
        (values.size, "1X"),
        (values.size, "-2"),
        (values.count, "0"),
        (values.count, "1.5"),
        (values.pause, "-1"),
    ],
)
def test_other_texts_are_refused_and_named(read, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=text):
        read(text)


def test_times_are_shown_in_utc_and_how_long_ago_they_were() -> None:
    there = timezone(timedelta(hours=2))
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=there)
    assert values.format_time(when) == "2026-01-02 01:04:05 UTC"
    now = datetime.now(timezone.utc)
    assert values.ago(now) == "now"
    assert values.ago(now - timedelta(hours=5, seconds=90)) == "5h1m"
    never = datetime(1, 1, 1, tzinfo=timezone.utc)
    assert (values.ago(never), values.format_time(never), values.ago(None)) == (None, None, None)
