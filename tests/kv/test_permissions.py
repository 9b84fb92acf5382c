"""What a user has to be allowed, as the guide lists it, is enough; single keys can be allowed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "keyvalue.md"


@pytest.fixture(scope="module")
def server():
    """A server with three users: ``all``, ``some`` as the guide says, ``reader`` of keys eu.*."""
    table = GUIDE.read_text().split("## Permissions")[1].split("##")[0]
    listed = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    assert len(listed) >= 7
    some = [subject.replace("<bucket>", "b") for subject in listed]
    reader = ["$JS.API.STREAM.INFO.KV_b", "$JS.API.DIRECT.GET.KV_b.$KV.b.eu.*"]
    config = f"""
        jetstream {{}}
        authorization {{ users: [
            {{ user: all, password: x }}
            {{ user: some, password: x, permissions: {{
                publish: {json.dumps(some)}, subscribe: ["_INBOX.>"] }} }}
            {{ user: reader, password: x, permissions: {{
                publish: {json.dumps(reader)}, subscribe: ["_INBOX.>"] }} }}
        ] }}
    """
    with NatsServer(config=config) as one:
        with jetsync.connect(one.url, user="all", password="x") as nc:
            kv = nc.jetstream().create_key_value(bucket="b", history=5)
            kv.put("eu.a", b"1")
            kv.put("us.a", b"2")
        yield one


def test_what_the_guide_lists_is_enough(server):
    with jetsync.connect(server.url, user="some", password="x") as nc:
        kv = nc.jetstream().key_value("b")
        revision = kv.put("x", b"1")
        assert kv.get("x").revision == kv.get("x", direct=False).revision == revision
        assert kv.get("x", revision=revision).value == b"1"
        assert kv.update("x", b"2", revision) == revision + 1
        kv.delete("x")
        kv.create("x", b"3")
        assert kv.keys() == ["eu.a", "us.a", "x"]
        assert len(kv.history("x")) == 4
        with kv.watch("x") as watcher:
            assert [one.value for one in watcher.initial(20)] == [b"3"]
        kv.purge("x")
        assert kv.purge_deletes(older_than=0) == 1
        assert kv.status().values == 2
        assert nc.last_error is None


def test_single_keys_can_be_allowed(server):
    with jetsync.connect(server.url, user="reader", password="x") as nc:
        kv = nc.jetstream().key_value("b")
        assert kv.get("eu.a").value == b"1"
        with pytest.raises(jetsync.PermissionsError):
            kv.get("us.a")
