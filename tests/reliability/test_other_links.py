"""The suites of the client and of JetStream over WebSockets and through real proxies.

Each runs in processes of its own, with JETSYNC_TEST_LINK (tests/harness/links.py): the short form
takes the tests of messages and callbacks, the long one everything that does not belong to TCP, in
the lanes of ``tests/lanes.py``, and none of it a second time.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import lanes
from tests.harness import links
from tests.harness.figures import short_form
from tests.harness.soak import scaled

ROOT = Path(__file__).parents[2]
CORE = ["tests/client/test_messages.py", "tests/client/test_dispatch.py"]
ALL = [
    "tests/client",
    "tests/jetstream",
    "tests/kv",
    "tests/objectstore",
    "tests/services",
    "tests/reliability/test_consume_restart.py",
    "tests/reliability/test_publish_integrity.py",
    "tests/reliability/test_forks.py",
    "tests/reliability/test_interrupts.py",
    "tests/reliability/test_closing.py",
    "tests/reliability/test_shared_by_threads.py",
]
RUNS = scaled(
    [["-m", "not straight", *CORE]],
    [
        ["-m", "not straight and not timed", "-n", lanes.PROCESSES, *ALL],
        ["-m", "not straight and timed", *ALL],
    ],
)
LONGEST = 85 * 60


@pytest.mark.timeout(scaled(120, LONGEST))
@pytest.mark.parametrize("kind", scaled(("ws",), links.KINDS))
def test_the_suites_hold_over_other_links(kind, record_figure):
    environment = short_form(**{links.ENVIRONMENT_VARIABLE: kind})
    passed = 0
    for arguments in RUNS:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=scaled(100, LONGEST),
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:]
        found = re.search(r"(\d+) passed", done.stdout)
        assert found
        passed += int(found[1])
    least = scaled(40, 2000)
    record_figure(f"tests passed over {kind}", passed, goal=f">= {least}")
    assert passed >= least
