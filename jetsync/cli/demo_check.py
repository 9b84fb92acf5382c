"""The demo's check: pandas computes the same from the CSV file, and the results are compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Reference", "check_count", "check_results", "check_rows", "decode_results"]

_KEY = ["day", "carrier"]
_MEASURES = ("flights", "departures", "delay_sum", "delay_mean", "miles")


@dataclass(frozen=True)
class Check:
    """One comparison: what was compared, how many items should and how many do agree."""

    what: str
    expected: int
    agreeing: int
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything agrees."""
        return self.agreeing == self.expected and not self.note


@dataclass(frozen=True)
class Reference:
    """The answers, computed by pandas straight from the CSV file."""

    flights: pd.DataFrame
    daily: pd.DataFrame

    @classmethod
    def compute(cls, path: Path, rows: int | None) -> Reference:
        """Read the CSV and aggregate it by day and carrier. Takes a second or two."""
        import pandas as pd

        flights = pd.read_csv(path).sort_values("time_hour", kind="stable", ignore_index=True)
        flights = flights.head(len(flights) if rows is None else rows)
        days = flights["time_hour"].str.slice(0, 10).rename("day")
        groups = flights.groupby([days, "carrier"])
        daily = pd.DataFrame(
            {
                "flights": groups.size(),
                "departures": groups["dep_delay"].count(),
                # pandas would sum nothing to 0, Spark to null: a day without departures.
                "delay_sum": groups["dep_delay"].sum(min_count=1),
                "delay_mean": groups["dep_delay"].mean(),
                "miles": groups["distance"].sum(),
            }
        ).reset_index()
        return cls(flights, daily.sort_values(_KEY, ignore_index=True))


def check_count(what: str, expected: int, actual: int) -> Check:
    """Compare two plain numbers."""
    note = "" if actual == expected else f"{actual:,} instead"
    return Check(what, expected, min(actual, expected), note)


def check_rows(reference: pd.DataFrame, rows: pd.DataFrame) -> Check:
    """Compare the rows that Spark wrote with the CSV, every field of every row."""
    import numpy as np

    what = "flights in parquet equal to the CSV, every field"
    found = rows.assign(position=rows["msg_id"].astype("int64")).sort_values("position")
    positions = found["position"].to_numpy()
    if not np.array_equal(positions, np.arange(len(reference))):
        duplicates = int(found["position"].duplicated().sum())
        missing = len(set(range(len(reference))) - set(positions.tolist()))
        return Check(
            what,
            len(reference),
            len(reference) - missing,
            f"{missing:,} missing, {duplicates:,} twice",
        )
    equal = np.ones(len(reference), dtype=bool)
    for column in reference.columns:
        expected, actual = reference[column].to_numpy(), found[column].to_numpy()
        both_missing = reference[column].isna().to_numpy() & found[column].isna().to_numpy()
        equal &= (expected == actual) | both_missing
    return Check(what, len(reference), int(equal.sum()))


def decode_results(messages: Iterable[bytes]) -> pd.DataFrame:
    """Return the published results as one table, ordered by day and carrier."""
    import pandas as pd

    decoded: list[dict[str, Any]] = [json.loads(data) for data in messages]
    table = pd.DataFrame(decoded, columns=[*_KEY, *_MEASURES])
    return table.sort_values(_KEY, ignore_index=True)


def check_results(reference: pd.DataFrame, results: pd.DataFrame) -> Check:
    """Compare the results read back from JetStream with pandas' own, each exactly once."""
    import numpy as np

    what = "daily results equal to those of pandas, each once"
    merged = reference.merge(results, on=_KEY, how="outer", suffixes=("", "_found"), indicator=True)
    matched = merged[merged["_merge"] == "both"]
    duplicates = int(results.duplicated(_KEY).sum())
    unknown = int((merged["_merge"] == "right_only").sum())
    equal = np.ones(len(matched), dtype=bool)
    for measure in _MEASURES:
        equal &= np.isclose(
            matched[measure].astype("float64"),
            matched[f"{measure}_found"].astype("float64"),
            rtol=1e-12,
            atol=0.0,
            equal_nan=True,
        )
    note = f"{duplicates:,} twice, {unknown:,} unknown" if duplicates or unknown else ""
    return Check(what, len(reference), int(equal.sum()) - duplicates, note)
