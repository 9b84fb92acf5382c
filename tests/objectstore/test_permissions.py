"""The permissions that the guide lists are enough, and a missing one is named by the refusal."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "objectstore.md"
DATA = bytes(300_000)


def listed():
    """The subjects of the guide's table, for bucket ``b``."""
    rows = GUIDE.read_text().split("## Permissions")[1].split("\n## ")[0]
    cells = [row.split("|")[1] for row in rows.splitlines() if row.startswith("| `")]
    found = [subject for cell in cells for subject in re.findall(r"`([^`]+)`", cell)]
    return [subject.replace("<bucket>", "b") for subject in found]


@pytest.fixture(scope="module")
def server():
    allowed = ", ".join(f'"{subject}"' for subject in listed())
    reading = ", ".join(f'"{one}"' for one in listed() if "INFO" in one or "MSG.GET" in one)
    config = f"""
    accounts {{ A {{ jetstream: enabled, users: [
        {{user: all, password: x}}
        {{user: some, password: x, permissions: {{
            publish: {{allow: [{allowed}]}}, subscribe: "_INBOX.>"}}}}
        {{user: none, password: x, permissions: {{
            publish: {{allow: [{reading}]}}, subscribe: "_INBOX.>"}}}}
    ] }} }}
    """
    with NatsServer(config=config) as one:
        with jetsync.connect(one.url, user="all", password="x") as nc:
            store = nc.jetstream().create_object_store(bucket="b")
            store.put("there", DATA)
        yield one


def test_what_the_guide_lists_is_enough(server):
    assert len(listed()) == 10
    with jetsync.connect(server.url, user="some", password="x") as nc:
        store = nc.jetstream().object_store("b")
        for _ in range(2):
            store.put("x", DATA)
        assert store.get_bytes("x") == DATA
        assert store.get_bytes("x", start=200_000, length=50_000) == bytes(50_000)
        store.update_meta("x", description="d")
        store.update_meta("x", new_name="y")
        store.copy("y", "z")
        store.add_link("l", store.info("z"))
        assert [info.name for info in store.list()] == ["there", "y", "z", "l"]
        with store.watch() as watcher:
            assert len(list(watcher.initial(20))) == 5
        for name in ("y", "z", "l"):
            store.delete(name)
        assert store.prune(older_than=0) == []
        assert store.status().bucket == "b"
        assert nc.last_error is None


@pytest.mark.timed
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.put("x", DATA),
        lambda store: store.get_bytes("there"),
        lambda store: store.get("there"),
        lambda store: store.update_meta("there", description="d"),
        lambda store: store.update_meta("there", new_name="x"),
        lambda store: store.delete("there"),
        lambda store: store.copy("there", "x"),
        lambda store: store.list(),
        lambda store: store.watch(),
        lambda store: store.add_bucket_link("x", "other"),
    ],
    ids=range(10),
)
def test_what_is_not_allowed_is_said_at_once(server, call):
    with jetsync.connect(server.url, user="none", password="x") as nc:
        store = nc.jetstream(timeout=30).object_store("b")
        begin = time.monotonic()
        with pytest.raises((jetsync.PermissionsError, jetsync.NotStoredError)) as caught:
            call(store)
        assert "ermission" in str(caught.value)
        assert time.monotonic() - begin < 10
        assert store.info("there").size == len(DATA)


def test_a_rename_without_the_right_to_purge_is_whole(server):
    """Removing what a rename leaves takes no purge."""
    no_purge = [subject for subject in listed() if "PURGE" not in subject]
    allowed = ", ".join(f'"{subject}"' for subject in no_purge)
    config = f"""
    accounts {{ A {{ jetstream: enabled, users: [
        {{user: all, password: x}}
        {{user: some, password: x, permissions: {{
            publish: {{allow: [{allowed}]}}, subscribe: "_INBOX.>"}}}}
    ] }} }}
    """
    with NatsServer(config=config) as one:
        with jetsync.connect(one.url, user="all", password="x") as nc:
            nc.jetstream().create_object_store(bucket="b").put("x", DATA)
        with jetsync.connect(one.url, user="some", password="x") as nc:
            store = nc.jetstream().object_store("b")
            store.update_meta("x", new_name="y")
            assert [info.name for info in store.list()] == ["y"]
            assert store.get_bytes("y") == DATA
