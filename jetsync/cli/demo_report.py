"""The report of the demo: a table of rates and checks, two plots, two files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jetsync.cli.demo_check import Check

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

    def table(self) -> str:
        """Return the report as text for a terminal."""
        lines = [f"{'step':<50}{'rows':>10}{'seconds':>10}{'rows/s':>10}{'best batch':>12}"]
        lines += [
            f"{step.name:<50}{step.rows:>10,}{step.seconds:>10.1f}{step.rate:>10,.0f}"
            + (f"{step.peak:>10,.0f}/s" if step.peak else "")
            for step in self.steps
        ]
        lines += ["", f"{'check':<50}{'expected':>10}{'found':>10}"]
        for check in self.checks:
            verdict = "ok" if check.passed else f"FAILED {check.note}".rstrip()
            lines.append(f"{check.what:<50}{check.expected:>10,}{check.agreeing:>10,}  {verdict}")
        lines += ["", "files"]
        lines += [f"  {path}" for path in self.files]
        outcome = "all checks passed" if self.passed else "SOME CHECKS FAILED"
        lines += ["", f"{outcome}; {self.seconds:.0f} s in all"]
        return "\n".join(lines)

    def write_json(self, path: Path) -> None:
        """Write the same as JSON, for programs."""
        document = {
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
        path.write_text(json.dumps(document, indent=2) + "\n")


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
