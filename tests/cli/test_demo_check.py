"""The demo's referee: it passes what is right and notices every kind of wrong."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from jetsync.cli.demo_check import (
    Reference,
    check_count,
    check_results,
    check_rows,
    decode_results,
)
from jetsync.cli.demo_data import find_flights_csv

ROWS = 5_000


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference.compute(find_flights_csv(), ROWS)


@pytest.fixture
def rows(reference: Reference) -> pd.DataFrame:
    """What Spark would write: the same rows with ids, in another order."""
    table = reference.flights.assign(msg_id=reference.flights.index.astype(str))
    return table.sample(frac=1, random_state=1)


@pytest.fixture
def results(reference: Reference) -> pd.DataFrame:
    table = reference.daily.astype(object).where(reference.daily.notna(), None)
    return decode_results(json.dumps(row).encode() for row in table.to_dict("records"))


def test_the_right_rows_pass_in_any_order(reference: Reference, rows: pd.DataFrame) -> None:
    check = check_rows(reference.flights, rows)
    assert check.passed
    assert check.agreeing == ROWS


def test_one_changed_field_is_noticed(reference: Reference, rows: pd.DataFrame) -> None:
    for column, value in (("distance", -1), ("tailnum", "N0"), ("dep_delay", float("nan"))):
        changed = rows.copy()
        place = changed.index[changed[column].notna()][0]
        changed.loc[place, column] = value
        check = check_rows(reference.flights, changed)
        assert not check.passed
        assert check.agreeing == ROWS - 1


def test_a_missing_and_a_repeated_row_are_noticed(reference: Reference, rows: pd.DataFrame) -> None:
    missing = check_rows(reference.flights, rows.iloc[1:])
    assert not missing.passed
    assert missing.note == "1 missing, 0 twice"
    repeated = check_rows(reference.flights, pd.concat([rows, rows.iloc[:1]]))
    assert not repeated.passed
    assert repeated.note == "0 missing, 1 twice"


def test_the_right_results_pass(reference: Reference, results: pd.DataFrame) -> None:
    check = check_results(reference.daily, results)
    assert check.passed
    assert check.expected == len(reference.daily) > 70


def test_a_wrong_missing_repeated_or_unknown_result_is_noticed(
    reference: Reference, results: pd.DataFrame
) -> None:
    wrong = results.copy()
    wrong.loc[3, "miles"] += 1
    unknown = results.copy()
    unknown.loc[3, "day"] = "1999-01-01"
    for bad in (wrong, unknown, results.iloc[1:], pd.concat([results, results.iloc[:1]])):
        assert not check_results(reference.daily, bad).passed


def test_a_count_must_be_exact() -> None:
    assert check_count("rows", 3, 3).passed
    assert not check_count("rows", 3, 2).passed
    assert not check_count("rows", 3, 4).passed
