"""Measured figures: shown after the run, and kept as JSON lines where a file is named for them."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Sequence

import pytest

from tests.harness import soak
from tests.harness.soak import SOAKING

ENVIRONMENT_VARIABLE = "JETSYNC_FIGURES"

KEY = pytest.StashKey[list[dict[str, object]]]()

Recorder = Callable[..., None]


def short_form(**more: str) -> dict[str, str]:
    """Return the environment for tests that a test runs in their short form: also where that one is
    a part of the long form, whose figures theirs are not."""
    long = (soak.ENVIRONMENT_VARIABLE, ENVIRONMENT_VARIABLE)
    return {name: value for name, value in os.environ.items() if name not in long} | more


@pytest.fixture
def record_figure(request: pytest.FixtureRequest) -> Recorder:
    """``record_figure("G9 close()", 0.41, "s", goal="<= 1.0 s")`` notes what was measured."""

    def record(name: str, value: float, unit: str = "", *, goal: str = "") -> None:
        figure: dict[str, object] = {
            "figure": name,
            "value": round(value, 4),
            "unit": unit,
            "goal": goal,
            "test": request.node.nodeid,
            "soak": SOAKING,
        }
        request.config.stash.setdefault(KEY, []).append(figure)
        path = os.environ.get(ENVIRONMENT_VARIABLE)
        if path:
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(figure) + "\n")

    return record


Promise = Callable[..., None]


@pytest.fixture
def keeps_promise(record_figure: Recorder) -> Promise:
    """``keeps_promise("G9 close()", seconds, 1.0, slack=0.5)`` holds measurements to a promise.

    In the long form (``make soak``) every value must be within the promised bound. In the short
    one, on whatever machine that is, the median must be, and ``slack`` is allowed on the greatest
    value only; the names of the figures say which of the two was asserted. ``p95`` is a second
    promise for all but the slowest twentieth.
    """

    def hold(
        name: str,
        values: Sequence[float],
        promised: float,
        unit: str = "s",
        *,
        slack: float,
        p95: float | None = None,
    ) -> None:
        assert values, name
        ordered = sorted(values)
        median, most = statistics.median(ordered), ordered[-1]
        late = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        goal = f"<= {promised:g} {unit}"
        many = f"{name} ({len(ordered)} times)"
        if SOAKING:
            record_figure(f"{many}: max", most, unit, goal=goal)
            if p95 is not None:
                record_figure(f"{many}: p95", late, unit, goal=f"<= {p95:g} {unit}")
                assert late <= p95, f"{many}: p95"
            assert most <= promised, f"{many}: max"
            return
        typical = promised if p95 is None else p95
        record_figure(f"{many}: median", median, unit, goal=f"<= {typical:g} {unit}")
        record_figure(f"{many}: max, asserted with {slack:g} {unit} more", most, unit, goal=goal)
        assert median <= typical, f"{many}: median"
        assert most <= promised + slack, f"{many}: max"

    return hold


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    figures = config.stash.get(KEY, [])
    if not figures:
        return
    terminalreporter.section("figures")
    for figure in figures:
        goal = f"   (goal {figure['goal']})" if figure["goal"] else ""
        terminalreporter.write_line(
            f"{figure['figure']}: {figure['value']:g} {figure['unit']}".rstrip() + goal
        )
