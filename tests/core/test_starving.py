"""Where memory fails, at any allocation, a call raises MemoryError and nothing is lost."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.csrc.build import clean_environment
from tests.harness.places import SEARCH_PATH
from tests.harness.starve import build_starve

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="puts itself in front of glibc's malloc",
)


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    return build_starve(tmp_path_factory.mktemp("starve"))


def test_a_failing_allocator_loses_nothing(library, tmp_path, record_figure):
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.starving", str(library)],
        env={
            **clean_environment(),
            "LD_PRELOAD": str(library),
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": SEARCH_PATH,
        },
        cwd=tmp_path,  # not the checkout, which would come before an installed wheel
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    counts = json.loads(done.stdout)
    assert len(counts) == 15
    assert min(counts.values()) > 5, counts
    record_figure("allocations refused, something lost", 0, f"of {sum(counts.values())}", goal="0")
