"""In continuous integration a test that is skipped for want of a program or a package fails.

``python -m tests.lanes`` loads this with ``-p tests.harness.skips``; it does nothing without
``JETSYNC_CI``. What may be skipped there is what a longer form runs, what the kernel forbids to
a machine, and what its Python has no wheel of: such a reason begins with one of ``ALLOWED``.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
ALLOWED = ("make soak", "this machine forbids", "no wheel of")
SKIPPED = "Skipped: "
HELP = (
    "skipped in continuous integration: {reason}\nLet .ci/bootstrap.sh or the extra dev bring what "
    "this test needs, or begin the reason with one of " + ", ".join(map(repr, ALLOWED))
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return refuse((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return refuse((yield))  # a module that is skipped whole


def refuse(report: Report) -> Report:
    """Make a failure of a skip that continuous integration does not allow."""
    if not report.skipped or hasattr(report, "wasxfail") or not os.environ.get("JETSYNC_CI"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix(SKIPPED)
    if not reason.startswith(ALLOWED):
        report.outcome = "failed"
        report.longrepr = HELP.format(reason=reason)
    return report
