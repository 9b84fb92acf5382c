"""The demo's input is the whole data set, in order, each flight under an id of its own."""

from __future__ import annotations

import json
from datetime import datetime

import pandas as pd
import pytest

from jetsync.cli.demo_data import END_SUBJECT, MESSAGE_ID, WATERMARK_DAYS, Flights, find_flights_csv


@pytest.fixture(scope="module")
def flights() -> Flights:
    return Flights.read(find_flights_csv())


def test_every_flight_of_the_year_is_there_in_order_of_time(flights: Flights) -> None:
    assert len(flights) == 336_776
    hours = [line[-20:] for line in flights.lines]
    assert hours == sorted(hours)


def test_a_message_holds_every_field_of_its_flight(flights: Flights) -> None:
    """Compared with pandas' reading of the same file, missing values included."""
    table = pd.read_csv(find_flights_csv()).sort_values(
        "time_hour", kind="stable", ignore_index=True
    )
    for start in (0, 100_000, 336_276):
        messages = list(flights.messages(start, start + 500))
        assert [headers[MESSAGE_ID] for _, _, headers in messages] == [
            str(start + index) for index in range(len(messages))
        ]
        decoded = pd.DataFrame([json.loads(data) for _, data, _ in messages])
        decoded = decoded.mask(decoded.isna(), float("nan"))
        expected = table[start : start + 500].reset_index(drop=True)
        pd.testing.assert_frame_equal(decoded, expected, check_dtype=False)
        assert [subject for subject, _, _ in messages] == [
            f"flights.{row.origin}.{row.carrier}" for row in expected.itertuples()
        ]


def test_the_end_marker_is_late_enough_to_close_the_last_day(flights: Flights) -> None:
    subject, data, headers = flights.end_marker()
    assert subject == END_SUBJECT
    assert headers[MESSAGE_ID] == "end"
    marker = datetime.fromisoformat(json.loads(data)["time_hour"].rstrip("Z"))
    last = datetime.fromisoformat(flights.lines[-1][-20:].rstrip("Z"))
    assert (marker - last).days > WATERMARK_DAYS + 1


def test_fewer_rows_are_the_first_of_the_year(flights: Flights) -> None:
    few = Flights.read(find_flights_csv(), 10)
    assert few.lines == flights.lines[:10]
