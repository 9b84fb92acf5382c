"""Consuming with the least permissions, and without them."""

from __future__ import annotations

import contextlib
import threading

import pytest

import jetsync
from jetsync.server import NatsServer

PATIENCE = 30.0
WORKER = [
    "$JS.API.CONSUMER.MSG.NEXT.S.c",
    "$JS.ACK.S.c.>",
    "$JS.ACK.*.*.S.c.>",
]
READER = [
    "$JS.API.STREAM.INFO.S",
    "$JS.API.CONSUMER.CREATE.S.*.S.team1.>",
    "$JS.API.CONSUMER.MSG.NEXT.S.*",
    "$JS.API.CONSUMER.DELETE.S.*",
]


def user(name, **permissions):
    return {"user": name, "password": "p", "permissions": permissions}


@pytest.fixture(scope="module")
def server():
    config = {
        "authorization": {
            "users": [
                {"user": "admin", "password": "p"},
                user("worker", publish={"allow": WORKER}),
                user("reader", publish={"allow": READER}),
                user("idle", publish={"deny": ["$JS.API.CONSUMER.MSG.NEXT.>"]}),
            ]
        }
    }
    with NatsServer(config=config) as one:
        with jetsync.connect(one.url, user="admin", password="p") as nc:
            js = nc.jetstream()
            js.create_stream(name="S", subjects=["S.>"], storage="memory")
            js.create_consumer("S", durable_name="c")
            js.create_key_value(bucket="B", storage="memory").put("k", b"v")
            js.create_object_store(bucket="O", storage="memory").put("n", b"x")
        yield one


@contextlib.contextmanager
def connected(server, name):
    with jetsync.connect(server.url, user=name, password="p") as nc:
        yield nc.jetstream()
        nc.close()


@pytest.fixture
def admin(server):
    with connected(server, "admin") as js:
        js.stream("S").purge()
        yield js


@pytest.mark.parametrize("way", ["fetch", "messages", "consume"])
def test_a_worker_needs_to_pull_and_to_acknowledge_and_nothing_else(server, admin, way):
    for n in range(5):
        admin.publish("S.a", b"%d" % n)
    got: list[bytes] = []
    with connected(server, "worker") as js:
        sub = js.pull_subscribe(stream="S", consumer="c", timeout=1)
        if way == "fetch":
            while len(got) < 5:
                for msg in sub.fetch(5, timeout=PATIENCE):
                    got.append(msg.data)
                    msg.ack_sync(timeout=PATIENCE)
        elif way == "messages":
            with sub.messages() as messages:
                for _ in range(5):
                    msg = messages.next(timeout=PATIENCE)
                    got.append(msg.data)
                    msg.ack_sync(timeout=PATIENCE)
        else:
            done = threading.Event()

            def callback(msg):
                got.append(msg.data)
                msg.ack_sync(timeout=PATIENCE)
                if len(got) == 5:
                    done.set()

            with sub.consume(callback):
                assert done.wait(PATIENCE)
    assert got == [b"%d" % n for n in range(5)]
    assert admin.consumer("S", "c").info().num_ack_pending == 0


def test_a_reader_of_one_part_of_a_stream_needs_the_right_to_that_filter_only(server, admin):
    for team in (1, 2, 1):
        admin.publish(f"S.team{team}.x", b"%d" % team)
    with connected(server, "reader") as js:
        with js.ordered_consumer("S", filter_subjects="S.team1.>") as ordered:
            assert [ordered.next(timeout=PATIENCE).data for _ in range(2)] == [b"1", b"1"]
        with pytest.raises(jetsync.PermissionsError):
            js.ordered_consumer("S", filter_subjects="S.team2.>", timeout=2)


CALLS = {
    "fetch": lambda js: js.consumer("S", "c").fetch(1, timeout=PATIENCE),
    "fetch_no_wait": lambda js: js.consumer("S", "c").fetch_no_wait(1),
    "next": lambda js: js.consumer("S", "c").next(timeout=PATIENCE),
    "messages": lambda js: js.consumer("S", "c").messages().next(timeout=PATIENCE),
    "pull_subscribe": lambda js: js.pull_subscribe(stream="S", consumer="c").fetch(
        1, timeout=PATIENCE
    ),
    "ordered fetch": lambda js: js.ordered_consumer("S").fetch(1, timeout=PATIENCE),
    "ordered messages": lambda js: js.ordered_consumer("S").messages().next(timeout=PATIENCE),
    "keys of a bucket": lambda js: list(js.key_value("B").keys()),
    "watch of a bucket": lambda js: js.key_value("B").watch().next(timeout=PATIENCE),
    "listing of objects": lambda js: list(js.object_store("O").list()),
    "reading an object": lambda js: js.object_store("O").get("n").read(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_pull_that_permissions_refuse_says_so(server, admin, call):
    admin.publish("S.a", b"1")
    with connected(server, "idle") as js, pytest.raises(jetsync.PermissionsError):
        CALLS[call](js)


def test_consuming_that_permissions_refuse_ends_with_the_reason(server, admin):
    admin.publish("S.a", b"1")
    with connected(server, "idle") as js:
        context = js.consumer("S", "c").consume(lambda msg: None)
        assert context.wait(PATIENCE)
        assert isinstance(context.error, jetsync.PermissionsError)
