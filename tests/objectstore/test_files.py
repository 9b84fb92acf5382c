"""Files that objects are written to, and sources that are none."""

from __future__ import annotations

import os
import stat
import threading
from typing import Any

import pytest

import jetsync

BYTES = bytes(range(256)) * 2000


@pytest.fixture
def x(store):
    store.put("x", BYTES)
    return store


def test_the_file_keeps_its_permissions(x, tmp_path):
    """A new one gets those of the process."""
    old = tmp_path / "old"
    old.write_bytes(b"old")
    for mode in (0o644, 0o600, 0o755):
        old.chmod(mode)
        x.get_file("x", old)
        assert stat.S_IMODE(old.stat().st_mode) == mode
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    x.get_file("x", tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode == plain.stat().st_mode


def test_a_symbolic_link_stays_one(x, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(folder / "file")
    x.get_file("x", link)
    assert link.is_symlink()
    assert (folder / "file").read_bytes() == BYTES
    dangling = tmp_path / "dangling"
    dangling.symlink_to(folder / "new")
    x.get_file("x", dangling)
    assert (folder / "new").read_bytes() == BYTES
    assert sorted(one.name for one in folder.iterdir()) == ["file", "new"]


def test_what_cannot_be_replaced_is_refused_before_anything_is_read(x, nc, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    sent = nc.stats.out_bytes
    with pytest.raises(IsADirectoryError):
        x.get_file("x", tmp_path)
    with pytest.raises(FileNotFoundError):
        x.get_file("x", tmp_path / "no" / "file")
    for special in (tmp_path / "fifo", "/dev/null"):
        with pytest.raises(jetsync.ConfigError, match="regular"):
            x.get_file("x", special)
    assert nc.stats.out_bytes == sent
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_a_file_that_may_not_be_written_is_not_replaced(x, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(PermissionError):
        x.get_file("x", tmp_path / "file")


def test_the_bytes_are_on_the_disk_before_the_file_is_replaced(x, tmp_path, monkeypatch):
    order: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted(name, function):
        def call(*arguments):
            order.append(name)
            function(*arguments)

        return call

    monkeypatch.setattr(os, "fsync", noted("sync", sync))
    monkeypatch.setattr(os, "replace", noted("replace", replace))
    x.get_file("x", tmp_path / "file")
    assert order == ["sync", "replace"]


NONE_OF_THESE: list[Any] = [5, None, 1.5, object(), "text", [b"a", "b"], [None], threading]


@pytest.mark.parametrize("source", NONE_OF_THESE, ids=lambda source: type(source).__name__)
def test_sources_that_are_no_bytes(store, source):
    with pytest.raises(jetsync.ConfigError):
        store.put("x", source)
    assert store.list() == []


def test_a_view_with_steps_is_stored_as_the_bytes_that_it_shows(store):
    store.put("x", memoryview(BYTES)[::3])
    assert store.get_bytes("x") == BYTES[::3]


def test_only_what_is_said_about_an_object_can_be_changed(x):
    unknown: Any = {"chunk_size": 5}
    for fields in (unknown, {"size": 1}, {"nuid": "x"}):
        with pytest.raises(jetsync.ConfigError, match="cannot change"):
            x.update_meta("x", **fields)
    assert x.info("x").chunk_size == 128 * 1024
