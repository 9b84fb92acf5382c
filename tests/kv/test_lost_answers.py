"""Writes whose acknowledgement gets lost: their outcome is told truthfully, and stored once.

The proxy throws away what the server answers, the link is cut, and the write goes on over the next
one. A server of one replica looks at the condition of a write before its message id, so the copy is
refused because of the first one: that must not look like another client's write.
"""

from __future__ import annotations

import threading
import time

import pytest

import jetsync
from tests.harness.insides import connection_of
from tests.harness.proxy import Proxy
from tests.harness.tap import Tap
from tests.harness.waiting import wait_until

LONG = 20


class World:
    """A bucket, seen through a proxy (``kv``) and directly (``aside``)."""

    def __init__(self, proxy, js, kv, aside):
        self.proxy, self.js, self.kv, self.aside = proxy, js, kv, aside

    def last_seq(self):
        return self.aside.status().stream_info.state.last_seq

    def do(self, call, *, wait):
        """Run a call in a thread, wait for the condition, cut the link; return what came of it."""
        outcome = []

        def run():
            try:
                outcome.append(call())
            except Exception as error:
                outcome.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        wait_until(wait, timeout=LONG)
        return thread, outcome

    def lose_answer(self, call, meanwhile=lambda: None):
        """The server stores what the call writes, and its answer is lost."""
        before = self.last_seq()
        self.proxy.swallow_after(0)
        thread, outcome = self.do(call, wait=lambda: self.last_seq() > before)
        meanwhile()
        return self.heal(thread, outcome)

    def lose_request(self, call, meanwhile=lambda: None):
        """What the call writes does not even reach the server."""
        self.proxy.blackhole()
        silent = connection_of(self.kv._backing.js).stats.out_bytes
        thread, outcome = self.do(
            call, wait=lambda: connection_of(self.kv._backing.js).stats.out_bytes > silent
        )
        meanwhile()
        return self.heal(thread, outcome)

    def heal(self, thread, outcome):
        self.proxy.cut()
        self.proxy.heal()
        thread.join(60)
        (found,) = outcome
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(params=[1, 5], ids=["no history", "history"])
def world(request, fresh_server):
    with (
        jetsync.connect(fresh_server.url) as direct,
        Proxy(fresh_server.url) as proxy,
        jetsync.connect(proxy.url, reconnect_wait=0.01, reconnect_jitter=0.0) as nc,
    ):
        aside = direct.jetstream().create_key_value(bucket="b", history=request.param)
        js = nc.jetstream(timeout=LONG)
        yield World(proxy, js, js.key_value("b"), aside)


def test_put_is_stored_once(world):
    assert world.lose_answer(lambda: world.kv.put("a", b"1")) == 1
    assert world.last_seq() == 1


def test_create_is_not_refused_for_its_own_first_attempt(world):
    assert world.lose_answer(lambda: world.kv.create("a", b"1")) == 1
    assert world.last_seq() == 1
    assert world.aside.get("a").value == b"1"


def test_update_is_not_refused_for_its_own_first_attempt(world):
    world.aside.put("a", b"1")
    assert world.lose_answer(lambda: world.kv.update("a", b"2", 1)) == 2
    assert world.last_seq() == 2


@pytest.mark.parametrize("remove", ["delete", "purge"])
@pytest.mark.parametrize("revision", [1, None])
def test_deletions_are_stored_once(world, remove, revision):
    world.aside.put("a", b"1")
    call = getattr(world.kv, remove)
    assert world.lose_answer(lambda: call("a", revision=revision)) == 2
    assert world.last_seq() == 2
    assert world.aside.keys() == []


def test_create_over_a_deletion_whose_first_attempt_never_arrived(world):
    world.aside.put("a", b"1")
    world.aside.delete("a")
    assert world.lose_request(lambda: world.kv.create("a", b"2")) == 3
    assert world.last_seq() == 3


def test_create_that_was_stored_and_deleted_since_is_not_stored_again(world):
    def meanwhile():
        world.aside.delete("a")

    assert world.lose_answer(lambda: world.kv.create("a", b"1"), meanwhile) == 1
    assert world.last_seq() == 2
    assert world.aside.keys() == []


def test_update_that_was_stored_and_overwritten_since(world):
    """The history shows that it was stored; without one the outcome is reported as unknown."""
    world.aside.put("a", b"1")

    def call():
        return world.lose_answer(
            lambda: world.kv.update("a", b"2", 1), lambda: world.aside.put("a", b"3")
        )

    if world.aside.status().history > 1:
        assert call() == 2
    else:
        with pytest.raises(jetsync.PublishUnknownError, match="direct=False"):
            call()
    assert world.last_seq() == 3


@pytest.mark.parametrize("way", ["create", "update"])
def test_a_refusal_after_an_attempt_that_never_arrived_is_not_called_certain(world, way):
    """The server cannot know whether the first attempt was stored: no false conflict is told."""
    world.aside.put("other", b"")
    call = {
        "create": lambda: world.kv.create("a", b"mine"),
        "update": lambda: world.kv.update("a", b"mine", 0),
    }[way]
    with pytest.raises(jetsync.PublishUnknownError):
        world.lose_request(call, lambda: world.aside.put("a", b"theirs"))
    assert world.aside.get("a").value == b"theirs"


def test_a_server_that_dies_after_storing(fresh_server):
    """The first attempt is found after a restart too."""
    with (
        jetsync.connect(fresh_server.url) as direct,
        Proxy(fresh_server.url) as proxy,
        jetsync.connect(proxy.url, reconnect_wait=0.01, reconnect_jitter=0.0) as nc,
    ):
        aside = direct.jetstream(timeout=LONG).create_key_value(bucket="b")
        kv = nc.jetstream(timeout=LONG).key_value("b")
        world = World(proxy, None, kv, aside)

        def restart():
            fresh_server.kill()
            fresh_server.start()

        assert world.lose_answer(lambda: kv.create("a", b"1"), restart) == 1
        assert world.lose_answer(lambda: kv.update("a", b"2", 1), restart) == 2
        assert [one.revision for one in aside.history("a")] == [2]


def test_without_ids_nothing_is_sent_twice(fresh_server):
    """``auto_msg_id=False``: an unknown outcome is told, not repeated."""
    with (
        jetsync.connect(fresh_server.url) as direct,
        Proxy(fresh_server.url) as proxy,
        jetsync.connect(proxy.url, reconnect_wait=0.01, reconnect_jitter=0.0) as nc,
    ):
        aside = direct.jetstream().create_key_value(bucket="b")
        kv = nc.jetstream(timeout=LONG, auto_msg_id=False).key_value("b")
        world = World(proxy, None, kv, aside)
        with pytest.raises(jetsync.PublishUnknownError):
            world.lose_answer(lambda: kv.create("a", b"1"))
        assert world.last_seq() == 1


def test_every_call_keeps_its_time_when_no_server_answers(fresh_server):
    """However long the default is: ``timeout`` bounds the whole call, its retries included."""
    with (
        Proxy(fresh_server.url) as proxy,
        jetsync.connect(proxy.url) as nc,
    ):
        js = nc.jetstream(timeout=600)
        kv = js.create_key_value(bucket="b", timeout=LONG)
        watcher = kv.watch(timeout=LONG)
        proxy.blackhole()
        short = 0.1
        for call in (
            lambda: kv.get("a", timeout=short),
            lambda: kv.get("a", direct=False, timeout=short),
            lambda: kv.put("a", b"", timeout=short),
            lambda: kv.create("a", b"", timeout=short),
            lambda: kv.update("a", b"", 1, timeout=short),
            lambda: kv.delete("a", timeout=short),
            lambda: kv.purge("a", timeout=short),
            lambda: kv.keys(timeout=short),
            lambda: kv.history("a", timeout=short),
            lambda: kv.watch(timeout=short),
            lambda: kv.watch(resume_from_revision=1, timeout=short),
            lambda: kv.status(timeout=short),
            lambda: kv.purge_deletes(timeout=short),
            lambda: js.key_value("b", timeout=short),
            lambda: js.create_key_value(bucket="c", timeout=short),
            lambda: js.update_key_value(bucket="b", history=2, timeout=short),
            lambda: js.create_or_update_key_value(bucket="b", timeout=short),
            lambda: js.delete_key_value("b", timeout=short),
            lambda: next(js.key_value_buckets(timeout=short)),
            lambda: watcher.next(timeout=short),
        ):
            began = time.monotonic()
            with pytest.raises((jetsync.TimeoutError, jetsync.NotStoredError)):
                call()
            assert time.monotonic() - began < 20
        proxy.heal()
        watcher.stop()


def test_a_conflict_that_cannot_be_looked_at_is_no_plain_timeout(server, js, kv):
    """It is known that nothing was stored."""
    kv.put("a", b"1")
    kv.delete("a")
    with Tap(server.url) as tap, jetsync.connect(tap.url) as nc:
        far = nc.jetstream(timeout=LONG).key_value(kv.bucket)
        tap.to_server = lambda frame: b"" if b".STREAM.MSG.GET." in frame.subject else frame.raw
        with pytest.raises(jetsync.NotStoredError, match="another revision"):
            far.create("a", b"2", timeout=1)
    assert "a" not in kv
