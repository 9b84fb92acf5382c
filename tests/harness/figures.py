"""Measured figures: shown after the run, and kept as JSON lines where a file is named for them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.harness.soak import SOAKING

ENVIRONMENT_VARIABLE = "JETSYNC_FIGURES"

KEY = pytest.StashKey[list[dict[str, object]]]()

Recorder = Callable[..., None]


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
