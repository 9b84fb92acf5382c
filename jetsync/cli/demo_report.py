"""The report of the demo: a table of rates and checks, two plots, two files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jetsync.cli.demo_check import Check
from jetsync.cli.output import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Report", "Step", "write_plots"]


@dataclass(frozen=True)
class Step:
    """One timed part of the run."""

    name: str
    rows: int
    seconds: float
    peak: float = 0.0
    """Rows per second of the fastest part, where a step has parts."""

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Report:
    """How a run went."""

    steps: Sequence[Step]
    checks: Sequence[Check]
    files: Sequence[Path]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def views(self) -> list[Table | str]:
        """Return the report for people: tables, and sentences between them."""
        steps = Table(
            ("STEP", ">ROWS", ">SECONDS", ">ROWS/S", ">BEST BATCH"),
            [
                (
                    step.name,
                    step.rows,
                    f"{step.seconds:.1f}",
                    f"{step.rate:,.0f}",
                    f"{step.peak:,.0f}/s" if step.peak else "",
                )
                for step in self.steps
            ],
        )
        checks = Table(
            ("CHECK", ">EXPECTED", ">FOUND", "RESULT"),
            [
                (
                    check.what,
                    check.expected,
                    check.agreeing,
                    "ok" if check.passed else f"FAILED {check.note}".rstrip(),
                )
                for check in self.checks
            ],
            styles={"ok": "green"},
        )
        outcome = "all checks passed" if self.passed else "SOME CHECKS FAILED"
        files = Table(("FILES",), [(path,) for path in self.files])
        return [steps, checks, files, f"{outcome}; {self.seconds:.0f} s in all"]

    def document(self) -> dict[str, object]:
        """Return the same for programs."""
        return {
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "steps": [
                {
                    **asdict(step),
                    "seconds": round(step.seconds, 3),
                    "rate": round(step.rate),
                    "peak": round(step.peak),
                }
                for step in self.steps
            ],
            "checks": [{**asdict(check), "passed": check.passed} for check in self.checks],
        }

    def write_json(self, path: Path) -> None:
        """Write the document into a file."""
        path.write_text(json.dumps(self.document(), indent=2) + "\n")


def write_plots(daily: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the mean delay by carrier and the flights by day; return the two PNG files."""
    import matplotlib
    import pandas as pd

    matplotlib.use("Agg")  # files only: no display is needed
    from matplotlib import pyplot

    totals = daily.groupby("carrier")[["delay_sum", "departures"]].sum()
    means = (totals["delay_sum"] / totals["departures"]).sort_values()
    by_carrier = folder / "delay-by-carrier.png"
    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    axes.barh(means.index, means.to_numpy(), color="#2f6f9f")
    axes.set(title="Departures from New York, 2013: mean delay by carrier", xlabel="minutes")
    figure.savefig(by_carrier, dpi=120)
    pyplot.close(figure)

    per_day = daily.groupby("day")["flights"].sum()
    by_day = folder / "flights-by-day.png"
    figure, axes = pyplot.subplots(figsize=(9, 4), layout="constrained")
    axes.plot(pd.to_datetime(per_day.index), per_day.to_numpy(), linewidth=0.9, color="#2f6f9f")
    axes.set(title="Departures from New York, 2013: flights by day (UTC)", ylabel="flights")
    axes.set_ylim(bottom=0)
    figure.savefig(by_day, dpi=120)
    pyplot.close(figure)
    return [by_carrier, by_day]
