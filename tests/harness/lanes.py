"""Which tests may run beside others, and in which order.

Test processes that run beside each other (``-n``, see ``tests/lanes.py``) each take whole files.
Tests with the session's Spark stay in one process, so that one JVM starts for all of them, and
begin first, because they take longest; the long files of ``FIRST`` follow, so that at the end no
process is left alone with one of them. What measures time is marked ``timed`` and runs alone.
"""

from __future__ import annotations

import pytest

SPARK_SESSION = "spark"

FIRST = (
    "tests/concurrency/test_sanitized.py",
    "tests/cli/test_demo_run.py",
    "tests/spark/test_pipeline_faults.py",
    "tests/spark/test_connect_server.py",
    "tests/reference/",
    "tests/fuzz/",
    "tests/csrc/",
    "tests/benchmarks/",
    "tests/unit/test_distribution.py",
    "tests/conformance/test_ack_subjects_v2.py",
    "tests/reliability/",
    "tests/objectstore/test_renames.py",
    "tests/server/",
)
"""The files and folders that take long, longest first (build/tests/parallel.xml of a whole run)."""


def group(item: pytest.Item) -> str:
    """Return the name of the tests that share a process with this one."""
    if SPARK_SESSION in getattr(item, "fixturenames", ()):
        return SPARK_SESSION
    return item.nodeid.split("::")[0]


def rank(item: pytest.Item) -> int:
    """Return the place of the item's group among those that begin first."""
    name = group(item)
    if name == SPARK_SESSION:
        return 0
    places = (place for place, start in enumerate(FIRST, 1) if name.startswith(start))
    return next(places, len(FIRST) + 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist") or not config.getoption("numprocesses", None):
        return
    items.sort(key=rank)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))
