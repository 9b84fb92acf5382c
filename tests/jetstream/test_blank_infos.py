"""A server that has just started answers for a consumer of its cluster before it has loaded its
state: nothing but zeros, and no word about the cluster. Such an answer is not believed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

import jetsync
from jetsync import JetStreamUnavailableError
from jetsync.server import NatsCluster
from tests.harness.fakeserver import ClientGone, FakeServer, Peer
from tests.harness.waiting import alongside, wait_until

SEQUENCES = {"consumer_seq": 0, "stream_seq": 0}
BLANK = {
    "type": "io.nats.jetstream.api.v1.consumer_info_response",
    "stream_name": "S",
    "name": "c",
    "created": "2026-11-23T16:56:23.13634148Z",
    "config": {"durable_name": "c", "name": "c", "ack_policy": "explicit"},
    "delivered": SEQUENCES,
    "ack_floor": SEQUENCES,
    "num_ack_pending": 0,
    "num_redelivered": 0,
    "num_waiting": 0,
    "num_pending": 0,
    "ts": "2026-11-23T16:56:47.982315281Z",
}
"""As nats-server 2.15.1 has sent it."""
LOADED = {
    **BLANK,
    "delivered": {"consumer_seq": 9, "stream_seq": 9},
    "num_ack_pending": 5,
    "cluster": {"name": "C", "leader": "one"},
}
UNUSED = {**BLANK, "cluster": {"name": "C", "leader": "one"}}


@contextlib.contextmanager
def answering(*answers: dict[str, Any], **info: Any) -> Iterator[tuple[jetsync.JetStream, list]]:
    """A server that gives one of these answers after the other, the last one again and again."""
    left = list(answers)

    def script(peer: Peer) -> None:
        peer.handshake(api_lvl=5, jetstream=True, **info)
        sid = b""
        with contextlib.suppress(ClientGone):
            while True:
                line = peer.read_line()
                words = line.split(b" ")
                if line == b"PING":
                    peer.send(b"PONG\r\n")
                elif words[0] == b"SUB":
                    sid = words[-1]
                elif words[0] == b"PUB":
                    peer.read_exactly(int(words[-1]) + 2)
                    answer = left.pop(0) if len(left) > 1 else left[0]
                    peer.send_message(words[2], sid, json.dumps(answer).encode())

    with FakeServer(script) as fake, jetsync.connect(fake.url) as nc:
        yield nc.jetstream(), left
        nc.close()


def test_a_blank_answer_of_a_cluster_is_not_believed_and_the_next_one_is():
    with answering(BLANK, BLANK, LOADED, cluster="C") as (js, left):
        consumer = js.consumer("S", "c")
        assert consumer.info().num_ack_pending == 5
        assert left == [LOADED]


def test_a_blank_answer_that_stays_is_an_error_and_no_zeros():
    with answering(LOADED, BLANK, cluster="C") as (js, _):
        consumer = js.consumer("S", "c")
        with pytest.raises(JetStreamUnavailableError, match="has not loaded"):
            consumer.info(timeout=0.6)


@pytest.mark.parametrize(
    ("answer", "info"), [(UNUSED, {"cluster": "C"}), (BLANK, {}), (LOADED, {"cluster": "C"})]
)
def test_an_answer_with_its_cluster_or_of_a_server_without_one_counts_at_once(
    answer: dict[str, Any], info: dict[str, Any]
):
    """Also of a consumer that was never used."""
    with answering(answer, BLANK, **info) as (js, left):
        assert js.consumer("S", "c").name == "c"
        assert left == [BLANK]


def is_everywhere(info: jetsync.ConsumerInfo) -> bool:
    """Whether every replica has what the leader has."""
    replicas = info.cluster.replicas if info.cluster else []
    return len(replicas) == 2 and all(one.current and not one.lag for one in replicas)


def test_a_consumer_of_a_cluster_that_starts_again_is_never_empty_by_mistake():
    """All servers are killed at once; until one has loaded the consumer, no call returns zeros."""
    wrong: list[jetsync.ConsumerInfo] = []
    right: list[int] = []
    with NatsCluster(3) as cluster, jetsync.connect(cluster.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s.*"], num_replicas=3)
        consumer = js.create_consumer("S", durable_name="c", ack_wait=600)
        js.publish_many(("s.a", b"x") for _ in range(200))
        assert len(consumer.fetch(50)) == 50
        # The leader delivers before the others know of it, and what only it knew may go with it.
        wait_until(lambda: is_everywhere(consumer.info(timeout=5)))

        def ask(over):
            while not over.is_set():
                with contextlib.suppress(jetsync.Error):
                    info = consumer.info(timeout=5)
                    right.append(info.num_ack_pending)
                    if (info.num_ack_pending, info.num_pending) != (50, 150):
                        wrong.append(info)

        with alongside(ask):
            wait_until(lambda: right)
            for server in cluster.servers:
                server.kill()
            for server in cluster.servers:
                server.start(60)
            seen = len(right)
            wait_until(lambda: len(right) > seen, timeout=60)
    assert not [(info.num_ack_pending, info.num_pending) for info in wrong]
