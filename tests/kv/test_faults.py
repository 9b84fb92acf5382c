"""Every call of a bucket under a frozen server, a lost link, a full bucket, missing permissions and
an old server: it ends in time, with an error that says what is wrong."""

from __future__ import annotations

import threading
import time

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.older import older_server
from tests.harness.proxy import Proxy

LONG = 30


def calls(timeout):
    """Every call on a bucket that has key ``a`` in revision 1."""
    return {
        "get": lambda kv: kv.get("a", timeout=timeout),
        "get of a revision": lambda kv: kv.get("a", revision=1, timeout=timeout),
        "get of the leader": lambda kv: kv.get("a", direct=False, timeout=timeout),
        "get at least": lambda kv: kv.get("a", at_least=1, timeout=timeout),
        "exists": lambda kv: kv.exists("a", timeout=timeout),
        "get_many": lambda kv: kv.get_many(["a", "b"], timeout=timeout),
        "keys": lambda kv: kv.keys(timeout=timeout),
        "iter_keys": lambda kv: list(kv.iter_keys(timeout=timeout)),
        "entries": lambda kv: list(kv.entries(timeout=timeout)),
        "items": lambda kv: list(kv.items(timeout=timeout)),
        "history": lambda kv: kv.history("a", timeout=timeout),
        "iter_history": lambda kv: list(kv.iter_history("a", timeout=timeout)),
        "watch": lambda kv: kv.watch(timeout=timeout).stop(),
        "status": lambda kv: kv.status(timeout=timeout),
        "put": lambda kv: kv.put("a", b"2", timeout=timeout),
        "create": lambda kv: kv.create("new", b"2", timeout=timeout),
        "update": lambda kv: kv.update("a", b"2", 1, timeout=timeout),
        "modify": lambda kv: kv.modify("a", lambda value: b"2", timeout=timeout),
        "delete": lambda kv: kv.delete("a", timeout=timeout),
        "purge": lambda kv: kv.purge("a", timeout=timeout),
        "purge_deletes": lambda kv: kv.purge_deletes(timeout=timeout),
    }


READING = list(calls(1))[:14]
WRITING = list(calls(1))[14:]


@pytest.fixture
def own_server(tmp_path):
    with NatsServer(store_dir=tmp_path) as server:
        yield server
        server.resume()


def all_end_in_time(kv, in_time):
    """Make all calls at once; none is answered."""
    seen = {}

    def make(name, call):
        try:
            call(kv)
        except Exception as error:
            seen[name] = error

    threads = [threading.Thread(target=make, args=pair) for pair in calls(1).items()]
    with in_time(1):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
    assert seen.keys() == calls(1).keys()
    for name, error in seen.items():
        kinds: tuple[type[jetsync.Error], ...] = (
            jetsync.TimeoutError,
            jetsync.NotStoredError,
            jetsync.DisconnectedError,
        )
        if name in ("put", "create", "update", "delete", "purge"):
            kinds = (jetsync.NotStoredError, jetsync.PublishUnknownError)
        assert isinstance(error, kinds), name


@pytest.mark.timed
def test_a_frozen_server(own_server, in_time):
    with jetsync.connect(own_server.url, ping_interval=60) as nc:
        kv = nc.jetstream(timeout=LONG).create_key_value(bucket="b")
        kv.put("a", b"1")
        own_server.pause()
        try:
            all_end_in_time(kv, in_time)
        finally:
            own_server.resume()


@pytest.mark.timed
def test_a_lost_link(own_server, in_time):
    with Proxy(own_server.url) as proxy:
        nc = jetsync.connect(proxy.url, reconnect_wait=0.05, max_reconnects=-1)
        kv = nc.jetstream(timeout=LONG).create_key_value(bucket="b")
        kv.put("a", b"1")
        proxy.stop()
        all_end_in_time(kv, in_time)
        nc.close()


def test_a_link_that_is_lost_for_a_moment_is_not_noticed(own_server):
    with (
        Proxy(own_server.url) as proxy,
        jetsync.connect(proxy.url, reconnect_wait=0.01, max_reconnects=-1) as nc,
    ):
        kv = nc.jetstream(timeout=LONG).create_key_value(bucket="b", history=5)
        for name, call in calls(LONG).items():
            kv.purge("a")
            last = kv.put("a", b"1")
            proxy.cut()
            if name == "update":
                kv.update("a", b"2", last, timeout=LONG)
            elif name != "get of a revision":
                call(kv)


def test_a_full_bucket(js, bucket):
    """It refuses values, and gives and takes away what it has."""
    kv = js.create_key_value(bucket=bucket, storage="memory", max_bytes=2000, history=5)
    kv.put("a", bytes(500))
    try:
        for write in (
            lambda: kv.put("b", bytes(2000)),
            lambda: kv.create("b", bytes(2000)),
            lambda: kv.update("a", bytes(2000), 1),
            lambda: kv.modify("a", lambda value: bytes(2000)),
        ):
            with pytest.raises(jetsync.NotStoredError):
                write()
        for name in READING:
            calls(LONG)[name](kv)
        kv.delete("a")
        kv.purge("a")
        assert kv.purge_deletes(older_than=0) == 1
    finally:
        js.delete_key_value(bucket)


@pytest.mark.timed
def test_missing_permissions():
    """The refusal names what is missing, and comes long before the time is over."""
    config = """
    accounts { A { jetstream: enabled, users: [
        {user: all, password: x}
        {user: none, password: x, permissions: {
            publish: {allow: ["$JS.API.STREAM.INFO.KV_b"]}, subscribe: "_INBOX.>"}}
    ] } }
    """
    with NatsServer(config=config) as server:
        with jetsync.connect(server.url, user="all", password="x") as nc:
            nc.jetstream().create_key_value(bucket="b").put("a", b"1")
        with jetsync.connect(server.url, user="none", password="x") as nc:
            kv = nc.jetstream(timeout=LONG).key_value("b")
            for name, call in calls(LONG).items():
                if name == "status":
                    continue
                begin = time.monotonic()
                with pytest.raises((jetsync.PermissionsError, jetsync.NotStoredError)) as caught:
                    call(kv)
                assert "ermission" in str(caught.value), name
                assert time.monotonic() - begin < 10, name


@pytest.mark.parametrize("version", ["2.10.25", "2.11.11", "2.12.8"])
def test_older_servers(version):
    """Everything works that they have; what they lack is refused with the version it needs."""
    is_old = version.startswith("2.10")
    with older_server(version) as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=LONG)
        kv = js.create_key_value(bucket="b", history=5)
        kv.put("b", b"1")
        for name, call in calls(LONG).items():
            kv.purge("a")
            last = kv.put("a", b"1")
            if name == "update":
                kv.update("a", b"2", last)
            elif name != "get of a revision":
                call(kv)
        if is_old:
            sent = nc.stats.out_bytes
            for call in (
                lambda: kv.create("t", b"1", ttl=5),
                lambda: kv.purge("t", ttl=5),
                lambda: js.create_key_value(bucket="t", limit_marker_ttl=5),
            ):
                with pytest.raises(jetsync.ApiLevelRequiredError, match=r"2\.11"):
                    call()
            assert nc.stats.out_bytes == sent
            assert "t" not in kv
        else:
            short = js.create_key_value(bucket="t", limit_marker_ttl=5)
            assert short.create("t", b"1", ttl=5)
        objects = js.create_object_store(bucket="o")
        objects.put("x", bytes(300_000))
        objects.update_meta("x", new_name="y")
        assert objects.get_bytes("y", start=-5) == bytes(5)
        assert [info.name for info in objects.list()] == ["y"]
        if not version.startswith("2.12"):
            with pytest.raises(jetsync.ApiLevelRequiredError, match=r"2\.12"):
                js.create_object_store(bucket="p", allow_atomic=True)
