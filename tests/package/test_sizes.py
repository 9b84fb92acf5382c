"""Files stay small enough to read in one sitting."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HARD = 500
SOFT = 400
SUFFIXES = {".py", ".pyx", ".pxd", ".c", ".h", ".pyi"}
FILES = sorted(
    p
    for folder in ("jetsync", "csrc", "tests", "benchmarks")
    for p in (ROOT / folder).rglob("*")
    if p.suffix in SUFFIXES and not (p.suffix == ".c" and p.with_suffix(".pyx").exists())
)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_file_is_over_the_hard_limit(path):
    assert lines(path) <= HARD


def test_nearly_all_files_are_under_the_soft_limit():
    long = [p.name for p in FILES if lines(p) > SOFT]
    assert len(long) * 40 <= len(FILES), long
