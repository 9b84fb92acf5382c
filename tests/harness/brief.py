"""Few lines for thousands of tests: ``-p tests.harness.brief``.

What passed or was skipped leaves no mark; each minute says how many have ended. Each failure is
also appended to the file that ``JETSYNC_FAILURES`` names, with the last lines of what it said.
"""

from __future__ import annotations

import os
import time

import pytest

ENVIRONMENT_VARIABLE = "JETSYNC_FAILURES"
EVERY = 60.0
LINES = 12


class Brief:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.ended = 0
        self.told = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, str] | None:
        if report.skipped and not hasattr(report, "wasxfail"):
            return "skipped", "", ""
        if report.passed:
            return "passed" if report.when == "call" else "", "", ""
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            note(report.nodeid, report.when, report.longreprtext)
        if report.when != "teardown":
            return
        self.ended += 1
        if time.monotonic() - self.told > EVERY:
            self.told = time.monotonic()
            reporter = self.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.write_line(f"{self.ended} tests have ended")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            note(report.nodeid, "collection", report.longreprtext)


def note(test: str, phase: str | None, said: str) -> None:
    path = os.environ.get(ENVIRONMENT_VARIABLE)
    if not path:
        return
    lines = [f"    {line[:200]}" for line in said.splitlines() if line.strip()][-LINES:]
    where = "" if phase == "call" else f" ({phase})"
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n".join([f"{test}{where}", *lines, ""]))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers report to the process that tells
        config.pluginmanager.register(Brief(config))
