"""Which tests may run beside others, and in which order.

Test processes that run beside each other (``-n``, see ``tests/lanes.py``) each take whole files.
Files with the session's Spark stay in one process, so that one JVM starts for all of them, and
begin first, because they take longest. The files of ``BUSY`` each keep every processor busy: they
follow each other in one process too, while the rest, which mostly waits, runs beside them. The long
files of ``FIRST`` come next, so that at the end no process is left alone with one of them. What
measures time is marked ``timed`` and runs alone.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest

from tests.harness.places import ROOT

SPARK_SESSION = "spark"
TAKES_SPARK = re.compile(r"^def \w+\([^)]*\bspark\b|usefixtures\(\"spark\"\)", re.MULTILINE)

BUSY_GROUP = "busy"
BUSY = (
    "tests/csrc/test_sanitized.py",
    "tests/spark/test_pipeline_faults.py",
    "tests/cli/test_demo_run.py",
    "tests/spark/test_connect_server.py",
    "tests/fuzz/test_fuzz.py",
    "tests/csrc/test_coverage.py",
    "tests/csrc/test_csrc.py",
)
"""The files that compile or start Spark themselves, or fuzz, longest first."""

FIRST = (
    *BUSY,
    "tests/fuzz/",
    "tests/spark/",
    "tests/wire/",
    "tests/csrc/",
    "tests/benchmarks/",
    "tests/package/test_distribution.py",
    "tests/conformance/test_ack_subjects_v2.py",
    "tests/reliability/",
    "tests/objectstore/test_renames.py",
    "tests/harness/",
    "tests/server/",
)
"""The files and folders that take long, longest first (build/tests/parallel.xml of a whole run)."""


@functools.cache
def group_of_file(file: str) -> str:
    path = ROOT / file
    if file.startswith("tests/spark/") and TAKES_SPARK.search(path.read_text(encoding="utf-8")):
        return SPARK_SESSION
    return BUSY_GROUP if file in BUSY else file


def group(nodeid: str) -> str:
    """Return the name of the tests that share a process with this one: most often its file."""
    return group_of_file(nodeid.partition("::")[0])


def rank(nodeid: str) -> int:
    """Return the place of the test's group among those that begin first."""
    name = group(nodeid)
    if name == SPARK_SESSION:
        return 0
    file = nodeid.partition("::")[0]
    places = (place for place, start in enumerate(FIRST, 1) if file.startswith(start))
    return next(places, len(FIRST) + 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole groups, in the order of the tests (``--dist loadgroup`` reads names that
    newer versions of pytest make in another way, and then hands out single tests)."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if SPARK_SESSION in getattr(item, "fixturenames", ()):
            assert group(item.nodeid) == SPARK_SESSION, f"{item.nodeid} would start another Spark"
    if hasattr(config, "workerinput"):  # one of several processes, which xdist makes
        items.sort(key=lambda item: rank(item.nodeid))
