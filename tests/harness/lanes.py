"""Which tests may run beside others, and in which order.

Test processes that run beside each other (``-n``, see ``tests/lanes.py``) each take whole files.
Tests with the session's Spark stay in one process, so that one JVM starts for all of them, and
begin first, because they take longest. What measures time is marked ``timed`` and runs alone.
"""

from __future__ import annotations

import pytest

SPARK_SESSION = "spark"


def group(item: pytest.Item) -> str:
    """Return the name of the tests that share a process with this one."""
    if SPARK_SESSION in getattr(item, "fixturenames", ()):
        return SPARK_SESSION
    return item.nodeid.split("::")[0]


def rank(item: pytest.Item) -> int:
    """The long ones first, so that no process is left alone with them at the end."""
    if group(item) == SPARK_SESSION:
        return 0
    return 1 if item.get_closest_marker("slow") else 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist") or not config.getoption("numprocesses", None):
        return
    slow_files = {group(item) for item in items if rank(item) == 1}
    items.sort(key=lambda item: min(rank(item), 1 if group(item) in slow_files else 2))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))
