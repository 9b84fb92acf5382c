"""A bucket of three replicas: watches and writes survive leaders and servers (G5, G7)."""

from __future__ import annotations

import contextlib
import threading

import pytest

import jetsync
from tests.harness.waiting import wait_until

LONG = 60
KEYS = 50


class Writer:
    """Puts all the time, key after key; ``revisions`` are those that were confirmed."""

    def __init__(self, kv):
        self.kv = kv
        self.revisions: list[int] = []
        self.unknown = 0
        self.error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def _run(self):
        number = 0
        try:
            while not self._stop.wait(0.002):
                number += 1
                try:
                    revision = self.kv.put(f"k.{number % KEYS}", b"%d" % number, timeout=LONG)
                    self.revisions.append(revision)
                except jetsync.PublishUnknownError:
                    self.unknown += 1
        except Exception as error:
            self.error = error

    def grow(self, more):
        wanted = len(self.revisions) + more
        wait_until(lambda: len(self.revisions) >= wanted or self.error, timeout=LONG)

    def end(self):
        self._stop.set()
        self._thread.join(LONG)
        assert not self._thread.is_alive()
        assert self.error is None


class Reader:
    """Notes every revision that a watch shows, up to the key ``end``."""

    def __init__(self, watcher):
        self.watcher = watcher
        self.entries: list[jetsync.Entry] = []
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="reader")
        self._thread.start()

    def _run(self):
        try:
            for entry in self.watcher:
                self.entries.append(entry)
                if entry.key == "end":
                    return
        except Exception as error:
            self.error = error

    def finish(self):
        self._thread.join(LONG)
        self.watcher.stop()
        assert self.error is None
        assert not self._thread.is_alive()


def leader_of(js, stream):
    """The server that leads, waiting for it during an election."""
    return wait_until(
        lambda: js.stream(stream, timeout=LONG).cached_info.cluster.leader, timeout=LONG
    )


def step_down(js, stream):
    """Let another server lead. A cluster swallows such a request now and then: ask again."""
    before = leader_of(js, stream)
    for _ in range(12):
        with contextlib.suppress(jetsync.TimeoutError, jetsync.ClusterError):
            js.step_down_stream_leader(stream, timeout=5)
        with contextlib.suppress(AssertionError):
            if wait_until(lambda: leader_of(js, stream) != before, timeout=5):
                return
    raise AssertionError(f"{before} would not step down")


def test_a_watch_loses_and_repeats_nothing(fresh_cluster):
    """Across three elections, a restart of the server the watcher is on and one of the leader:
    every confirmed revision comes, once and in order."""
    cluster = fresh_cluster
    with (
        jetsync.connect(cluster.urls, reconnect_wait=0.05) as writing,
        jetsync.connect(cluster.urls, reconnect_wait=0.05) as reading,
    ):
        js = writing.jetstream(timeout=LONG)
        made = js.create_key_value(bucket="watched", replicas=3, history=64, timeout=LONG)
        kv = reading.jetstream(timeout=LONG).key_value("watched")
        made.put("first", b"")
        reader = Reader(kv.watch(include_history=True))
        writer = Writer(made)
        try:
            writer.grow(100)
            for _ in range(3):
                step_down(js, "KV_watched")
                writer.grow(50)
            port = str(reading.connected_url).rsplit(":", 1)[1].rstrip("/")
            (mine,) = [one for one in cluster.servers if one.url.rstrip("/").endswith(port)]
            mine.restart()
            writer.grow(50)
            cluster.server(leader_of(js, "KV_watched")).restart()
            writer.grow(50)
        finally:
            writer.end()
            made.put("end", b"", timeout=LONG)
        reader.finish()
        revisions = [one.revision for one in reader.entries]
        assert revisions == sorted(set(revisions))
        assert set(writer.revisions) <= set(revisions)
        # Each put is stored once: what came is what was put, in its order.
        values = [int(one.value) for one in reader.entries if one.key.startswith("k.")]
        assert values == sorted(set(values))
        assert len(values) <= len(writer.revisions) + writer.unknown
        assert {one.value for one in reader.entries} >= {
            entry.value for key in kv.keys(timeout=LONG) for entry in kv.history(key, timeout=LONG)
        }


def test_conditions_hold_in_a_cluster(cluster):
    """Threads that count with updates lose no count while the leader changes; one creates."""
    with jetsync.connect(cluster.urls, reconnect_wait=0.05) as nc:
        js = nc.jetstream(timeout=LONG)
        kv = js.create_key_value(bucket="counted", replicas=3, timeout=LONG)
        kv.put("count", b"0")
        each, failures, created, unknown = 25, [], [], []

        def count(number):
            try:
                # Not known: its first attempt was lost in the election, and another one was first.
                with contextlib.suppress(jetsync.KeyExistsError, jetsync.PublishUnknownError):
                    created.append((kv.create("leader", b"%d" % number), b"%d" % number))
                done = 0
                while done < each:
                    found = kv.get("count", direct=False)
                    try:
                        kv.update("count", b"%d" % (int(found.value) + 1), found.revision)
                        done += 1
                    except jetsync.KeyWrongRevisionError:
                        continue
                    except jetsync.PublishUnknownError:
                        unknown.append(number)
                        done += 1
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=count, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        step_down(js, "KV_counted")
        for thread in threads:
            thread.join(LONG)
        try:
            assert not failures
            leader = kv.get("leader", direct=False)
            assert created in ([], [(leader.revision, leader.value)])
            total = int(kv.get("count", direct=False).value)
            assert 3 * each - len(unknown) <= total <= 3 * each
        finally:
            js.delete_key_value("counted")


def test_the_leader_reads_what_was_written(cluster):
    with jetsync.connect(cluster.urls) as nc:
        js = nc.jetstream(timeout=LONG)
        kv = js.create_key_value(bucket="own", replicas=3, storage="memory", timeout=LONG)
        try:
            for number in range(100):
                revision = kv.put("a", b"%d" % number)
                assert kv.get("a", direct=False).revision == revision
                with pytest.raises(jetsync.KeyExistsError):
                    kv.create("a", b"")
                assert kv.history("a", timeout=LONG)
        finally:
            js.delete_key_value("own")
