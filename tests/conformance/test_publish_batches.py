"""Batch publishing: ADR-50, the atomic part."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.conformance.publish_room import room
from tests.harness.fakeserver import FakeServer
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until


def test_a_batch_gets_consecutive_sequences(url):
    with room(url, allow_atomic=True) as (js, stream, name):
        with js.batch() as batch:
            for n in range(10):
                batch.add(f"{name}.{n % 3}", b"%d" % n, headers={"K": str(n)})
            assert len(batch) == 10
            assert stream.info().state.messages == 0
        assert batch.ack is not None
        assert (batch.ack.seq, batch.ack.count, batch.ack.stream) == (10, 10, name)
        assert batch.ack.batch
        stored = [stream.get_msg(seq) for seq in range(1, 11)]
        assert [msg.data for msg in stored] == [b"%d" % n for n in range(10)]
        assert stored[7].headers["K"] == "7"


def test_one_message_and_the_last_one_with_the_commit(url):
    with room(url, allow_atomic=True) as (js, stream, name):
        assert js.batch().commit(f"{name}.a", b"only").count == 1
        batch = js.batch()
        batch.add(f"{name}.a")
        assert batch.commit(f"{name}.b", b"last", headers={"K": "v"}).count == 2
        assert stream.get_msg(3).headers["K"] == "v"


def test_messages_of_others_do_not_come_in_between(url):
    with room(url, allow_atomic=True) as (js, stream, name):
        stop = threading.Event()

        def disturb():
            while not stop.is_set():
                js.publish_many([(f"{name}.x", b"other")] * 100)

        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            for _ in range(20):
                batch = js.batch()
                for n in range(50):
                    batch.add(f"{name}.mine", b"%d" % n)
                last = batch.commit().seq
                for n in (0, 25, 49):
                    assert stream.get_msg(last - 49 + n).data == b"%d" % n
        finally:
            stop.set()
            thread.join(60)


def test_discarding_and_exceptions_leave_nothing(url):
    with room(url, allow_atomic=True) as (js, stream, name):
        batch = js.batch()
        batch.add(f"{name}.a")
        batch.discard()
        batch.discard()
        with pytest.raises(RuntimeError), js.batch() as batch:
            batch.add(f"{name}.a")
            raise RuntimeError
        with js.batch():
            pass  # empty: nothing to do
        for call in (batch.commit, lambda: batch.add(f"{name}.a")):
            with pytest.raises(jetsync.ConfigError, match="discarded"):
                call()
        # Many forgotten batches take no places on the server.
        for _ in range(100):
            js.batch().add(f"{name}.a")
        assert js.batch().commit(f"{name}.a").seq == 1
        assert stream.info().state.messages == 1


def test_a_batch_is_committed_once(url):
    with room(url, allow_atomic=True) as (js, _, name):
        batch = js.batch()
        with pytest.raises(jetsync.ConfigError, match="empty"):
            batch.commit()
        batch.add(f"{name}.a")
        batch.commit()
        with pytest.raises(jetsync.ConfigError, match="committed"):
            batch.commit()


def test_a_message_that_cannot_be_sent_leaves_the_batch_as_it_was(url):
    with room(url, allow_atomic=True) as (js, _, name):
        batch = js.batch()
        batch.add(f"{name}.a")
        text: Any = "not bytes"
        for call, error in (
            (lambda: batch.add("bad subject"), jetsync.ConfigError),
            (lambda: batch.add(f"{name}.a", text), jetsync.ConfigError),
            (lambda: batch.add(f"{name}.a", headers={"K": "a\nb"}), jetsync.ConfigError),
            (lambda: batch.add(f"{name}.a", b"x" * (2 << 20)), jetsync.MaxPayloadError),
            (lambda: batch.commit(data=b"x"), jetsync.ConfigError),
        ):
            with pytest.raises(error):
                call()
        assert batch.commit().count == 1


def refused(call):
    """The API error that a commit was refused with; nothing is stored by it."""
    with pytest.raises(jetsync.NotStoredError) as caught:
        call()
    assert not isinstance(caught.value, jetsync.PublishUnknownError)
    if isinstance(caught.value, jetsync.APIError):
        return caught.value
    assert isinstance(caught.value.__cause__, jetsync.APIError)
    return caught.value.__cause__


def filled(js, *messages, **options):
    batch = js.batch(**options)
    for subject, more in messages:
        batch.add(subject, **more)
    return batch


def test_what_the_server_refuses_is_typed(url):
    with room(url, allow_atomic=True) as (js, stream, name):
        a = f"{name}.a"
        js.publish(a, msg_id="there")
        too_many = filled(js, *[(a, {})] * 1001)
        cases = {
            10199: too_many,
            10201: filled(js, (a, {"msg_id": "there"}), (a, {})),
            10071: filled(js, (a, {"expected_last_seq": 99}), (a, {})),
            10060: filled(js, (a, {"expected_stream": "OTHER"}), (a, {})),
            10176: filled(js, (f"unheard{name}", {}), (a, {})),
        }
        for code, batch in cases.items():
            error = refused(batch.commit)
            assert error.err_code == code, (code, error)
        assert stream.info().state.messages == 1
        assert filled(js, *[(a, {})] * 1000).commit().count == 1000


def test_a_stream_without_batches_says_so(url):
    with room(url) as (js, stream, name):
        error = refused(filled(js, (f"{name}.a", {}), (f"{name}.a", {})).commit)
        assert isinstance(error, jetsync.BatchPublishError)
        assert error.err_code == 10174
        assert stream.info().state.messages == 0


def test_conditions_hold_for_the_whole_batch(url):
    with room(url, allow_atomic=True) as (js, stream, name):
        a = f"{name}.a"
        assert filled(js, (a, {"expected_last_seq": 0}), (a, {})).commit().count == 2
        good = filled(js, (f"{name}.b", {"expected_last_subject_seq": 0}), (a, {}))
        assert good.commit().seq == 4
        bad = filled(js, (a, {}), (f"{name}.b", {"expected_last_subject_seq": 0}))
        assert isinstance(refused(bad.commit), jetsync.WrongLastSequenceError)
        assert stream.info().state.messages == 4


def test_a_repeated_batch_with_ids_is_refused_as_a_whole(url):
    with room(url, allow_atomic=True) as (js, stream, name):
        for attempt in range(2):
            batch = filled(js, *[(f"{name}.a", {"msg_id": str(n)}) for n in range(5)])
            if attempt == 0:
                batch.commit()
            else:
                assert refused(batch.commit).err_code == 10201
        assert stream.info().state.messages == 5


def test_no_stream_takes_it(url):
    with jetsync.connect(url) as nc:
        batch = nc.jetstream().batch(timeout=0.6)
        batch.add("nothing.stores.this")
        with pytest.raises(jetsync.NotStoredError):
            batch.commit()


def test_a_batch_outlives_a_lost_connection():
    """Before the commit nothing has left, so a new connection makes no difference."""
    with NatsServer() as server, jetsync.connect(server.url, reconnect_wait=0.01) as nc:
        js = nc.jetstream(timeout=30)
        stream = js.create_stream(name="S", subjects=["s"], allow_atomic=True)
        batch = js.batch()
        batch.add("s", b"1")
        server.kill()
        wait_until(lambda: not nc.is_connected)
        batch.add("s", b"2")
        server.start()
        assert batch.commit().count == 2
        assert stream.info().state.messages == 2


def test_a_link_that_breaks_during_the_commit_stores_all_or_nothing():
    """(A server that is killed while it stores a batch is another matter, and its own.)"""
    with NatsServer() as server, Proxy(server.url) as proxy, jetsync.connect(server.url) as direct:
        direct.jetstream().create_stream(name="S", subjects=["s"], allow_atomic=True)
        counts = {jetsync.PubAck: [500], jetsync.NotStoredError: [0]}
        before = 0
        for turn in range(10):
            with jetsync.connect(proxy.url, reconnect_wait=0.01) as nc:
                batch = filled(nc.jetstream(timeout=20), *[("s", {"data": b"x" * 1000})] * 500)
                start = proxy.bytes_to_server

                def cut(start=start, turn=turn):
                    wait_until(lambda: proxy.bytes_to_server > start + turn * 50_000, timeout=20)
                    proxy.cut()

                cutter = threading.Thread(target=cut)
                cutter.start()
                try:
                    outcome = type(batch.commit())
                except jetsync.PublishError as error:
                    outcome = type(error)
                cutter.join(30)
            # Behind the batch: a server that is asked while it stores one counts a part of it.
            barrier = direct.jetstream().publish("s", b"").seq
            assert barrier - 1 - before in counts.get(outcome, [0, 500]), outcome
            before = barrier


def test_a_server_that_would_store_them_one_by_one_is_not_asked():
    """Servers before 2.12 do not know the headers."""

    def old(peer):
        peer.handshake(api_lvl=1)
        peer.serve()

    with (
        FakeServer(old) as fake,
        jetsync.connect(fake.url) as nc,
    ):
        batch = filled(nc.jetstream(), ("s", {}))
        assert isinstance(refused(batch.commit), jetsync.ApiLevelRequiredError)
        nc.close()
