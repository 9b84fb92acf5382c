"""What JETSYNC_DEBUG promises: taking mutexes in a wrong order, or not holding one, is noticed."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.csrc.build import LINK, build_program

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lock_order")
    sources = [HERE / "aborting" / "lock_order.c", LINK / "link_sync.c"]
    return build_program(folder, "lock_order", sources, [], ["-DLINK_DEBUG"], ["-pthread"])


def run(program: Path, kind: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), kind], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_right_use_passes(program):
    assert run(program, "fine").returncode == 0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("wrong order", "wrong order"),
        ("two of one order", "wrong order"),
        ("not held", "not held"),
        ("unlocked twice", "not held"),
    ],
)
def test_misuse_ends_the_process(program, kind, text):
    done = run(program, kind)
    assert done.returncode == -signal.SIGABRT
    assert text in done.stderr


def test_the_build_with_jetsync_debug_has_the_checks():
    setup = (HERE.parents[1] / "setup.py").read_text()
    assert 'checked = enabled("JETSYNC_DEBUG") or enabled("JETSYNC_SANITIZE")' in setup
    assert "-DLINK_DEBUG" in setup
