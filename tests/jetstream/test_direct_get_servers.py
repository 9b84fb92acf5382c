"""Direct gets: which servers answer, and links and servers that fail meanwhile."""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync.jetstream.streams import direct
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.tap import Tap
from tests.harness.waiting import wait_until
from tests.jetstream.messages import sequences
from tests.jetstream.stored import fill


def test_without_allow_direct_it_says_so(js, stream):
    js.publish(f"{stream.name}.a", b"x")
    for call in (
        lambda: stream.get_msgs(1, max_messages=1),
        lambda: stream.get_last_msgs(f"{stream.name}.a"),
        lambda: stream.get_msg(1, direct=True),
        lambda: stream.get_last_msg(f"{stream.name}.a", direct=True),
    ):
        with pytest.raises(jetsync.DirectGetNotAllowedError, match="allow_direct=True"):
            call()
    # Where it is not asked for expressly, the leader answers.
    assert stream.get_msg(1, direct=None).data == b"x"
    js.update_stream(name=stream.name, allow_direct=True)
    assert len(stream.get_msgs(1, max_messages=1)) == 1


def test_a_stream_that_lost_allow_direct_is_read_from_its_leader(js, open_stream):
    js.publish(f"{open_stream.name}.a", b"x")
    js.update_stream(name=open_stream.name, allow_direct=False)
    assert open_stream.get_msg(1, direct=None).data == b"x"


def test_a_deleted_stream_is_not_found(js, stream):
    gone = js.create_stream(name=f"{stream.name}x", storage="memory", allow_direct=True)
    js.delete_stream(gone.name)
    with pytest.raises(jetsync.StreamNotFoundError):
        gone.get_msgs(1, max_messages=1)
    with pytest.raises(jetsync.StreamNotFoundError):
        gone.get_msg(1, direct=True)


def test_a_mirror_may_answer_and_the_leader_knows_more(js, open_stream):
    name = open_stream.name
    mirror = js.create_stream(
        name=f"{name}M",
        storage="memory",
        mirror={"name": name, "filter_subject": f"{name}.1"},
        mirror_direct=True,
        allow_direct=True,
    )
    try:
        fill(js, open_stream, 9)
        wait_until(lambda: mirror.info().state.messages == 3, timeout=20)
        for seq in range(1, 10):
            assert open_stream.get_msg(seq).seq == seq
        for _ in range(30):
            batch = open_stream.get_msgs(1, max_messages=9)
            assert sequences(batch) in (list(range(1, 10)), [2, 5, 8])
            assert {msg.metadata.stream for msg in batch} <= {name, mirror.name}
        assert sequences(mirror.get_msgs(1, max_messages=9)) == [2, 5, 8]
    finally:
        mirror.delete()


def reads_all(stream):
    return lambda: (
        sequences(stream.get_msgs(1, max_messages=99)) == list(range(1, 51))
        and sequences(stream.get_last_msgs("every.*")) == [49, 50]
    )


def test_every_server_of_a_cluster_answers_directly(cluster):
    with jetsync.connect(cluster.urls) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="EVERY", subjects=["every.>"], num_replicas=3, allow_direct=True)
        try:
            for n in range(50):
                js.publish(f"every.{n % 2}", b"%d" % n)
            for server in cluster.servers:
                with jetsync.connect(server.url) as near:
                    stream = near.jetstream(timeout=20).stream("EVERY")
                    wait_until(reads_all(stream), timeout=20)
        finally:
            js.delete_stream("EVERY")


def test_a_broken_link_is_got_over_without_hole_or_repetition(server, js, open_stream, monkeypatch):
    js.publish_many((f"{open_stream.name}.a", b"x" * 200) for _ in range(5_000))
    monkeypatch.setattr(direct, "PAGE_BYTES", 50_000)
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url, reconnect_wait=0.01) as nc:
        stream = nc.jetstream(timeout=60).stream(open_stream.name)
        done = threading.Event()

        def cut():
            for _ in range(40):
                if done.wait(0.02):
                    return
                proxy.cut()

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            proxy.delay(0.001)
            batch = stream.get_msgs(1, max_messages=5_000)
        finally:
            done.set()
            cutter.join()
        assert sequences(batch) == list(range(1, 5_001))


ENDS = b"NATS/1.0 204"
"""What the status begins with that ends a page."""


@pytest.mark.parametrize("wanted", [10, 100])
def test_a_link_that_breaks_before_the_last_word_costs_nothing(server, js, open_stream, wanted):
    fill(js, open_stream, 30)
    lost: list[bytes] = []

    def lose_the_end(frame):
        if lost or not frame.body.startswith(ENDS):
            return frame.raw
        lost.append(frame.body)
        tap.cut()
        return b""

    with Tap(server.url) as tap, jetsync.connect(tap.url, reconnect_wait=0.01) as nc:
        stream = nc.jetstream(timeout=20).stream(open_stream.name)
        tap.to_client = lose_the_end
        batch = stream.get_msgs(1, max_messages=wanted)
        assert (sequences(batch), batch.num_pending) == (
            list(range(1, min(wanted, 30) + 1)),
            max(0, 30 - wanted),
        )
        assert lost
        lost.clear()
        assert sequences(stream.get_last_msgs(f"{open_stream.name}.*")) == [28, 29, 30]
        assert lost
        lost.clear()
        assert len(stream.get_msgs(1, max_messages=30, max_bytes=1)) == 1
        assert lost


def test_silence_is_a_timeout_and_what_came_is_kept(fresh_server, monkeypatch):
    silent = False

    def silence_after_a_page(frame):
        nonlocal silent
        silent, was = silent or frame.body.startswith(ENDS), silent
        return b"" if was else frame.raw

    with Tap(fresh_server.url) as tap, jetsync.connect(tap.url) as nc:
        stream = nc.jetstream().create_stream(
            name="SLOW", subjects=["slow"], storage="memory", allow_direct=True
        )
        nc.jetstream().publish_many(("slow", b"x" * 500) for _ in range(100))
        tap.to_client = lambda frame: b""
        with pytest.raises(jetsync.TimeoutError):
            stream.get_msgs(1, max_messages=100, timeout=0.3)
        with pytest.raises(jetsync.TimeoutError):
            stream.get_last_msgs("slow", timeout=0.3)
        tap.to_client = silence_after_a_page
        monkeypatch.setattr(direct, "PAGE_BYTES", 2_000)
        batch = stream.get_msgs(1, max_messages=100, timeout=2)
        assert silent
        assert isinstance(batch.error, jetsync.TimeoutError)
        assert sequences(batch) == list(range(1, len(batch) + 1))
        assert 0 < len(batch) < 100
        assert batch.num_pending > 0
        tap.to_client = lambda frame: frame.raw


def test_a_permission_that_is_missing_is_told_at_once():
    config = {
        "authorization": {
            "users": [
                {"user": "all", "password": "x"},
                {
                    "user": "some",
                    "password": "x",
                    "permissions": {"publish": {"deny": ["$JS.API.DIRECT.GET.>"]}},
                },
            ]
        }
    }
    with NatsServer(config=config) as server:
        with jetsync.connect(server.url, user="all", password="x") as nc:
            nc.jetstream().create_stream(name="P", allow_direct=True)
        with jetsync.connect(server.url, user="some", password="x") as nc:
            stream = nc.jetstream(timeout=20).stream("P")
            with pytest.raises(jetsync.PermissionsError):
                stream.get_msgs(1, max_messages=1)
            with pytest.raises(jetsync.PermissionsError):
                stream.get_msg(1, direct=True)
            with pytest.raises(jetsync.MessageNotFoundError):
                stream.get_msg(1)
