"""What clients see of a key while servers fail could have come from one register."""

from __future__ import annotations

import contextlib
import random
import threading
import time

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.soak import SOAKING
from tests.kv.linearizable import Op, violations
from tests.kv.test_cluster import leader_of

KEYS = ["a", "b", "c", "d", "e"]
LONG = 60


class Client:
    """Operates on random keys on a connection and thread of its own, and notes what it sees."""

    def __init__(self, urls, seed):
        self.rng = random.Random(seed)
        self.seed = seed
        self.nc = jetsync.connect(urls, reconnect_wait=0.02, max_reconnects=-1)
        self.kv = self.nc.jetstream(timeout=LONG).key_value("checked", timeout=LONG)
        self.history: list[Op] = []
        self.unknown: list[tuple[str, bytes | None]] = []
        self.not_stored: list[tuple[str, bytes]] = []
        self.error: BaseException | None = None
        self.last: dict[str, int] = {}

    def run(self, is_over):
        number = 0
        try:
            while not is_over():
                number += 1
                self.step(self.rng.choice(KEYS), b"%d.%d" % (self.seed, number))
        except BaseException as error:
            self.error = error

    def step(self, key, value):
        kind = self.rng.choices(
            ["get", "put", "create", "update", "delete", "purge"], [40, 20, 12, 20, 5, 3]
        )[0]
        begin = time.monotonic()
        try:
            getattr(self, kind)(key, value, begin)
        except jetsync.PublishUnknownError:
            self.unknown.append((key, None if kind in ("delete", "purge") else value))
        except jetsync.NotStoredError:
            self.not_stored.append((key, value))
        except (jetsync.TimeoutError, jetsync.DisconnectedError):
            assert kind == "get"

    def note(self, kind, key, begin, revision, value=None, expected=0):
        self.history.append(Op(kind, key, begin, time.monotonic(), revision, value, expected))
        self.last[key] = revision

    def get(self, key, value, begin):
        try:
            entry = self.kv.get(key, direct=False, timeout=5)
            self.note("get", key, begin, entry.revision, entry.value)
        except jetsync.KeyDeletedError as error:
            self.note("get", key, begin, error.revision)
        except jetsync.KeyNotFoundError:
            self.note("get", key, begin, 0)

    def put(self, key, value, begin):
        self.note("put", key, begin, self.kv.put(key, value, timeout=10), value)

    def create(self, key, value, begin):
        try:
            self.note("create", key, begin, self.kv.create(key, value, timeout=10), value)
        except jetsync.KeyExistsError as error:
            self.not_stored.append((key, value))
            self.note("exists", key, begin, error.revision)

    def update(self, key, value, begin):
        expected = self.last.get(key, 0)
        try:
            revision = self.kv.update(key, value, expected, timeout=10)
            self.note("update", key, begin, revision, value, expected)
        except jetsync.KeyWrongRevisionError as error:
            self.not_stored.append((key, value))
            if error.actual is not None:
                self.last[key] = error.actual

    def delete(self, key, value, begin):
        self.note("delete", key, begin, self.kv.delete(key, timeout=10))

    def purge(self, key, value, begin):
        self.note("purge", key, begin, self.kv.purge(key, timeout=10))


def check(clients, kv):
    """Hold all histories together, and with what is in the bucket at the end."""
    assert [client.error for client in clients if client.error] == []
    history = [op for client in clients for op in client.history]
    unknown: dict[str, set[bytes | None]] = {}
    for client in clients:
        for key, value in client.unknown:
            unknown.setdefault(key, set()).add(value)
    assert violations(history, unknown) == []
    # What was "certainly not stored" was never seen, and what was confirmed last is there.
    refused = {pair for client in clients for pair in client.not_stored}
    assert not [op for op in history if op.kind == "get" and (op.key, op.value) in refused]
    for key in KEYS:
        newest = max((op for op in history if op.key == key), key=lambda op: op.revision)
        entries = kv.history(key, timeout=LONG) if newest.revision else []
        assert not entries or entries[-1].revision >= newest.revision
    return len(history)


def run(urls, fault, *, operations, seconds, threads=6):
    with jetsync.connect(urls) as nc:
        js = nc.jetstream(timeout=LONG)
        kv = js.create_key_value(
            bucket="checked", replicas=3 if len(urls) > 1 else 1, history=5, timeout=LONG
        )
        clients = [Client(urls, seed) for seed in range(threads)]
        until = time.monotonic() + seconds
        over = threading.Event()

        def is_over():
            done = sum(len(client.history) for client in clients) >= operations
            return over.is_set() or (done and time.monotonic() >= until)

        running = [threading.Thread(target=client.run, args=(is_over,)) for client in clients]
        for thread in running:
            thread.start()
        faults = 0
        try:
            while not is_over():
                fault(js)
                faults += 1
        finally:
            over.set()
            for thread in running:
                thread.join(LONG)
                assert not thread.is_alive()
            for client in clients:
                client.nc.close()
        return check(clients, kv), faults


def test_a_server_that_is_killed_in_the_middle(tmp_path):
    """The short form: one server, one fault."""
    with NatsServer(store_dir=tmp_path) as server:

        def fault(js):
            time.sleep(0.5)  # the moment of the fault, among writes
            server.kill()
            server.start()
            time.sleep(1)  # writes behind the fault, which are checked too

        count, faults = run([server.url], fault, operations=500, seconds=2, threads=4)
        assert count >= 500
        assert faults


@pytest.mark.timeout(3600)
@pytest.mark.skipif(not SOAKING, reason="make soak; each commit has the kill above")
def test_a_cluster_whose_servers_are_killed_frozen_and_voted_out(fresh_cluster, record_figure):
    """At least a hundred thousand operations."""
    cluster = fresh_cluster
    rng = random.Random(11)

    def fault(js):
        time.sleep(rng.uniform(1, 3))  # the moment varies
        kind = rng.choice(["kill", "freeze", "step down"])
        with contextlib.suppress(jetsync.Error, AssertionError):
            leader = leader_of(js, "KV_checked")
            if kind == "step down":
                js.step_down_stream_leader("KV_checked", timeout=5)
                return
            server = cluster.server(leader) if rng.random() < 0.5 else rng.choice(cluster.servers)
            if kind == "kill":
                server.kill()
                time.sleep(rng.uniform(0.2, 2))  # the outage itself
                server.start()
            else:
                server.pause()
                try:
                    time.sleep(rng.uniform(0.5, 3))  # the outage itself
                finally:
                    server.resume()

    count, faults = run(cluster.urls, fault, operations=100_000, seconds=60)
    record_figure("G36 operations without a violation", count, goal=">= 100000")
    record_figure("G36 faults", faults)
    assert count >= 100_000
    assert faults >= 10


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([Op("put", "a", 0, 1, 1, b"x"), Op("put", "a", 0, 1, 1, b"y")], "twice"),
        ([Op("put", "a", 0, 1, 1, b"x"), Op("get", "a", 2, 3, 1, b"y")], "another value"),
        ([Op("get", "a", 2, 3, 1, b"y")], "never written"),
        ([Op("delete", "a", 0, 1, 2), Op("exists", "a", 0, 3, 2)], "there was no value"),
        ([Op("put", "a", 0, 1, 2, b"x"), Op("get", "a", 2, 3, 0)], "too old"),
        ([Op("get", "a", 0, 1, 2, None), Op("put", "a", 2, 3, 1, b"y")], "too old"),
        (
            [
                Op("put", "a", 0, 1, 1, b"x"),
                Op("put", "a", 0, 1, 2, b"y"),
                Op("update", "a", 0, 1, 3, b"z", 1),
            ],
            "updated behind",
        ),
        ([Op("put", "a", 0, 1, 1, b"x"), Op("create", "a", 0, 1, 2, b"y")], "created over"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_checker_finds_what_is_wrong(wrong, said):
    (text,) = violations(wrong, {})
    assert said in text


def test_the_checker_accepts_what_is_right():
    right = [
        Op("create", "a", 0, 1, 1, b"x"),
        Op("get", "a", 0, 3, 0),
        Op("get", "a", 0.5, 3, 1, b"x"),
        Op("update", "a", 2, 4, 5, b"y", 1),
        Op("get", "a", 3, 3.5, 1, b"x"),
        Op("delete", "a", 5, 6, 7),
        Op("get", "a", 7, 8, 7),
        Op("create", "a", 7, 9, 8, b"z"),
        Op("get", "a", 8, 9, 9, b"unknown"),
        Op("exists", "a", 8, 9, 9),
    ]
    assert violations(right, {"a": {b"unknown"}}) == []
