"""Plugins only: every resource lives in a file of its own."""

from __future__ import annotations

pytest_plugins = [
    "tests.harness.hypotheses",
    "tests.harness.signals",
    "tests.harness.nats_server",
    "tests.harness.connections",
    "tests.harness.leaks",
    "tests.harness.lanes",
    "tests.harness.figures",
    "tests.harness.certificates",
    "tests.harness.links",
    "tests.harness.in_time",
]
