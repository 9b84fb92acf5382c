"""The demo's output folder is the demo's alone: it never deletes or shares other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetsync.cli.demo_folder import OutputFolder
from jetsync.cli.failure import CommandError, UsageError


def test_a_folder_with_foreign_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    with (
        pytest.raises(UsageError, match=r"did not make.*--out"),
        OutputFolder(tmp_path, keep_work=False),
    ):
        pass
    assert precious.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [precious]


def test_a_repeat_starts_empty_and_scratch_files_go(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with OutputFolder(out, keep_work=False) as folder:
        (folder.path / "old-result").write_text("1")
        folder.parquet.mkdir()
        (folder.work / "scratch").write_text("1")
    assert not folder.work.exists()
    assert folder.parquet.exists()
    with OutputFolder(out, keep_work=True) as folder:
        assert not folder.parquet.exists()
        assert not (out / "old-result").exists()
        (folder.work / "scratch").write_text("1")
    assert (folder.work / "scratch").exists()


def test_two_runs_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with OutputFolder(out, keep_work=False) as first:
        (first.work / "in-use").write_text("1")
        with (
            pytest.raises(CommandError, match="another 'jetsync demo' is using"),
            OutputFolder(out, keep_work=False),
        ):
            pass
        assert (first.work / "in-use").exists()


def test_a_path_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    with (
        pytest.raises(CommandError, match=r"cannot write to .*file"),
        OutputFolder(tmp_path / "file", keep_work=False),
    ):
        pass


def test_too_little_space_is_said_before_anything_starts(tmp_path: Path) -> None:
    with OutputFolder(tmp_path / "out", keep_work=False) as folder:
        folder.require_space(1_000)
        with pytest.raises(CommandError, match=r"MB free and the demo needs about [\d,]+ MB"):
            folder.require_space(10**12)
